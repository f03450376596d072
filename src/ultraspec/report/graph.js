// The graph of the representatives.
let graphArea = null;
const graphData = {
  xy: unpack(Uint16Array, data.graph.xy), units: unpack(Uint16Array, data.graph.units), sizes: unpackBytes(data.graph.sizes),
  edges: unpack(Uint16Array, data.graph.edges), strength: unpackBytes(data.graph.strength),
};
function drawGraph() {
  const isLine = data.map.axes[1] === "rows";
  const area = (graphArea = newArea("graph", data.graph.frame, isLine ? [data.map.axes[0], "rows it stands for"] : data.map.axes));
  const { c } = area;
  const { xy, units, sizes, edges, strength } = graphData;
  const codes = (graphData.codes = Uint16Array.from(units, (unit) => current.groups[unit]));
  const at = (i) => [area.x(xy[2 * i] / 65535), area.y(xy[2 * i + 1] / 65535)];
  const ink = theme("ink"), faint = theme("faint");
  const crosses = (i) => codes[edges[2 * i]] !== codes[edges[2 * i + 1]];
  const opacity = isLine ? 0.35 : 1; // there lines cross often and say little
  for (const across of [false, true]) {
    for (let i = 0; i < strength.length; i++) { // weakest first
      if (crosses(i) !== across) continue;
      const a = edges[2 * i], b = edges[2 * i + 1];
      const shown = isShown(codes[a]) || isShown(codes[b]);
      c.globalAlpha = !shown ? 0.15 : opacity * ((across ? 0.12 : 0.25) + 0.55 * (strength[i] / 255));
      c.strokeStyle = !shown ? faint : across ? ink : colorOf(codes[a]);
      c.lineWidth = across ? 1.2 : 1;
      c.beginPath();
      c.moveTo(...at(a));
      c.lineTo(...at(b));
      c.stroke();
    }
  }
  const base = c.getTransform();
  const markers = data.markers.map((path) => new Path2D(path));
  const shrink = clamp(Math.sqrt(500 / codes.length), 0.45, 1);
  for (let i = 0; i < codes.length; i++) {
    const [x, y] = at(i);
    const size = (0.35 + 0.75 * (sizes[i] / 255)) * area.scale * shrink;
    c.globalAlpha = isShown(codes[i]) ? 1 : 0.35;
    c.fillStyle = isShown(codes[i]) ? colorOf(codes[i]) : faint;
    c.setTransform(base.a * size, 0, 0, base.d * size, base.a * x, base.d * y);
    c.fill(markers[codes[i] % markers.length]);
  }
  c.setTransform(base);
  c.globalAlpha = 1;
}
function underGraph(x, y) {
  return nearest(graphArea, graphData.xy, graphData.codes, x, y, 12, (i) => `stands for about ${formatRows(data.graph.rows[i])}`);
}
