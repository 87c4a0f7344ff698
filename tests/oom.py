import sys,time
sys.path.insert(0,'tests/e2e')
from client import Server
def ev(): return open('/sys/fs/cgroup/memory.events').read().replace('\n',' ')
print(open('/sys/fs/cgroup/memory.max').read(), open('/proc/self/cgroup').read())
ONE="x=bytearray(2<<30)"
STEP="l=[]\nwhile True: l.append(b'x'*(8<<20))"
MANY="import os,time\nfor n in range(8):\n  if os.fork()==0:\n    held=b'x'*(120<<20)\n    time.sleep(60)\ntime.sleep(30)"
SHM="f=open('big','wb')\nwhile True: f.write(bytes(1<<20))"
with Server('--isolation='+sys.argv[1]) as s:
    print(s.python("kept=1").text)
    for n,c in dict(one=ONE,step=STEP,many=MANY,many2=MANY,file=SHM).items():
        t=time.time(); r=s.python(c, 300, timeout_s=60); print(n, '%.1f'%(time.time()-t), r.text[-300:]); print(ev())
        print(s.python("print(kept)").text)
