# Runs meson and build-aux/: `make help` lists the targets.
BUILD ?= build
FUZZ_SECONDS ?= 900
PREFIX ?= /usr/local
MESON_OPTIONS ?=
LIBRARIES_PYTHON ?= /usr/bin/python3

.PHONY: all help demo check check-all check-quick check-asan check-lint check-machines check-denied check-aarch64 check-cpython check-libraries check-packaging \
	check-fresh soak fuzz stress bench dist deb image format install uninstall clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

help:
	@echo 'make              build $(BUILD)/sandpiper (installs Debian packages that are missing)'
	@echo 'make demo         play a session with the real server'
	@echo 'make check        every test, and what depends on it again: as a user, with sanitizers, … (10 minutes)'
	@echo 'make check-quick  the tests of this build, as you (3 minutes);  check-asan, check-lint: those runs only'
	@echo 'make check-all    every suite: as root, as a user, in a user namespace, at level container, with sanitizers'
	@echo '                  CASES="NAME..." runs only those tests of a check'
	@echo "make check-cpython  CPython's own tests, inside the sandbox and outside of it (half an hour; CASES=test_re)"
	@echo 'make check-libraries  real libraries and programs, outside, inside, after undo and crash, in a branch (LIBRARIES_PYTHON=...)'
	@echo 'make check-fresh  every target on a Debian that has nothing, as root; takes more than two hours'
	@echo 'make soak         a thousand servers, ended at random moments (LIVES=N)'
	@echo 'make check-denied   the end-to-end tests without Landlock, clone3, cgroups, …; takes long'
	@echo 'make check-aarch64  a cross build for 64-bit ARM (adds that architecture to apt)'
	@echo 'make fuzz         each fuzz target for FUZZ_SECONDS (900)'
	@echo 'make check-machines  the same suites in virtual machines of other kinds (tests/machines/README.md)'
	@echo 'make check-packaging  the .deb and what else is released, installed and started (CASES=deb; takes long)'
	@echo 'make stress       5000 calls with random crashes against a model (CALLS=N, SEED=N; DEATHS=N SERVERS=N BUSY=N; JOBS=500)'
	@echo 'make bench        beside an exec loop, python3 -c, ipykernel and bubblewrap (BENCH_OPTIONS=--big)'
	@echo 'make dist         the files of a release, in dist/ (REPOSITORY=owner/name on GitHub, IMAGE=container image)'
	@echo 'make deb          the Debian package, in dist/'
	@echo 'make image        container images and manifests, in dist/, without a container engine (IMAGE=name, docs/DEPLOY.md)'
	@echo 'make format       clang-format over every C file'
	@echo 'make install      to $$DESTDIR$(PREFIX);  make uninstall'

$(BUILD)/build.ninja:
	build-aux/deps.sh build
	meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_OPTIONS)

demo: all
	python3 build-aux/demo.py $(BUILD)/sandpiper

check check-all check-quick check-asan check-lint check-denied:
	build-aux/deps.sh build check $(if $(filter check check-all,$@),view)
	python3 build-aux/check.py $(@:check-%=%) $(CASES)

check-cpython: all
	build-aux/deps.sh build check cpython
	SANDPIPER=$(abspath $(BUILD))/sandpiper python3 tests/cpython/run.py $(CASES)

check-libraries: all
	SANDPIPER=$(abspath $(BUILD))/sandpiper python3 -B tests/libraries/run.py --python $(LIBRARIES_PYTHON) $(CASES)

soak: all
	SANDPIPER=$(abspath $(BUILD))/sandpiper python3 tests/soak/soak.py $(if $(LIVES),--lives $(LIVES))

check-aarch64:
	build-aux/deps.sh build check aarch64
	python3 build-aux/check.py aarch64

fuzz:
	build-aux/deps.sh build check
	python3 tests/fuzz/run.py $(FUZZ_SECONDS)

stress: all
	SANDPIPER=$(abspath $(BUILD))/sandpiper python3 tests/e2e/stress.py $(foreach option,CALLS DEATHS SERVERS BUSY SEED JOBS,\
		$(if $($(option)),--$(shell echo $(option) | tr A-Z a-z) $($(option))))

bench: all
	build-aux/deps.sh build bench
	/usr/bin/python3 build-aux/bench/bench.py $(BUILD)/sandpiper --out $(BUILD)/bench $(BENCH_OPTIONS)

check-machines: all
	python3 tests/machines/check.py $(BUILD)/sandpiper $(MACHINES)

check-packaging: all
	build-aux/deps.sh build check release image packaging aarch64
	python3 build-aux/check.py packaging $(CASES)

check-fresh: all
	build-aux/deps.sh build release image
	python3 build-aux/check.py packaging fresh

dist:
	build-aux/deps.sh build release
	python3 -B build-aux/dist/dist.py dist $(if $(REPOSITORY),--repository $(REPOSITORY)) \
		$(if $(IMAGE),--image $(IMAGE))

deb:
	build-aux/deps.sh build release
	python3 build-aux/deb.py dist

image:
	build-aux/deps.sh build release image
	python3 -B build-aux/dist/image.py dist $(if $(REPOSITORY),--repository $(REPOSITORY)) \
		$(if $(IMAGE),--image $(IMAGE))
	python3 -B build-aux/dist/manifests.py dist $(if $(IMAGE),--image $(IMAGE))

format:
	build-aux/deps.sh check
	python3 tests/lint/c_files.py fetch .
	python3 tests/lint/c_files.py write .

install: all
	meson install -C $(BUILD) --no-rebuild
	@[ -n "$(DESTDIR)" ] || sh build-aux/allow_namespaces.sh "$$(grep '/bin/sandpiper$$' $(BUILD)/meson-logs/install-log.txt)"

uninstall:
	python3 -B build-aux/uninstall.py $(BUILD)
	@[ -n "$(DESTDIR)" ] || sh build-aux/allow_namespaces.sh remove

clean:
	rm -rf $(BUILD) dist build-deb build-dist build-aarch64 build-asan build-clang build-format build-fuzz
