"""A profile as a page: torch_tpu.timeline()."""
import html
import json

_PAGE = """<!doctype html><meta charset="utf-8"><title>%(title)s</title>
<style>body{font:13px sans-serif;margin:1em}canvas{width:100%%;border:1px solid #ccc;cursor:grab}table{border-collapse:collapse}
td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #eee}td:first-child,th:first-child{text-align:left}#tip{min-height:1.5em}</style>
<h1>%(title)s</h1><p>Wheel: zoom. Drag: move. Times are in microseconds.</p><div id="tip"></div><canvas id="c"></canvas>
<h2>By name</h2><table><tr><th>name<th>calls<th>total<th>mean<th>longest</tr>%(rows)s</table>
<script>
const events=%(events)s, threads=[...new Set(events.map(e=>e[3]))], c=document.getElementById('c'), g=c.getContext('2d'), H=16;
const rows=new Map(); let height=0;
for(const t of threads){const ends=[];for(const e of events.filter(e=>e[3]===t)){let d=0;while(ends[d]>e[1])d++;ends[d]=e[1]+e[2];e[4]=d}
 rows.set(t,height);height+=ends.length+1}
let from=Math.min(...events.map(e=>e[1])), span=Math.max(...events.map(e=>e[1]+e[2]))-from||1, first=from, all=span;
const colour=n=>n.startsWith('tpu::build')?'#d62':n.startsWith('tpu::copy')?'#2a7':n.startsWith('tpu::')?'#37c':'#bbc';
function draw(){c.width=c.clientWidth;c.height=height*H;for(const e of events){const x=(e[1]-from)/span*c.width,w=e[2]/span*c.width;
 if(x+w<0||x>c.width)continue;const y=(rows.get(e[3])+e[4])*H;g.fillStyle=colour(e[0]);g.fillRect(x,y,Math.max(w,.5),H-1);
 if(w>40){g.fillStyle='#000';g.save();g.beginPath();g.rect(x,y,w,H);g.clip();g.fillText(e[0],Math.max(x,0)+2,y+11);g.restore()}}}
c.onwheel=v=>{v.preventDefault();const at=from+v.offsetX/c.width*span;span=Math.min(all,span*Math.exp(v.deltaY/400));from=at-v.offsetX/c.width*span;draw()};
c.onmousemove=v=>{if(v.buttons){from-=v.movementX/c.width*span;draw()}const t=from+v.offsetX/c.width*span,r=Math.floor(v.offsetY/H);
 const e=events.find(e=>e[1]<=t&&t<e[1]+e[2]&&rows.get(e[3])+e[4]===r);
 document.getElementById('tip').textContent=e?`${e[0]}: ${e[2].toFixed(1)} us at ${(e[1]-first).toFixed(1)} us, thread ${e[3]}`:''};
onresize=draw;draw();
</script>"""


def timeline(profile, file, title="torch_tpu timeline") -> None:
    """Writes what a torch.profiler.profile has recorded as one page of HTML that needs nothing else: a lane for each
    thread, torch's operators with tpu::execute, tpu::build (lowering, and compiling or loading), tpu::copy_to_device,
    tpu::copy_from_device and tpu::flush inside them, and a table by name."""
    events, totals = [], {}
    for e in profile.events():
        start, length = e.time_range.start, e.time_range.elapsed_us()
        events.append([e.name, start, length, e.thread])
        t = totals.setdefault(e.name, [0, 0.0, 0.0])
        t[0], t[1], t[2] = t[0] + 1, t[1] + length, max(t[2], length)
    if not events:
        raise ValueError("the profile holds no events: was it stopped?")
    events.sort(key=lambda e: (e[1], -e[2]))
    rows = "".join(f"<tr><td>{html.escape(name)}<td>{n}<td>{total:.1f}<td>{total / n:.1f}<td>{longest:.1f}</tr>"
                   for name, (n, total, longest) in sorted(totals.items(), key=lambda i: -i[1][1]))
    page = _PAGE % {"title": html.escape(title), "rows": rows, "events": json.dumps(events).replace("<", "\\u003c")}
    with open(file, "w", encoding="utf-8") as f:
        f.write(page)
