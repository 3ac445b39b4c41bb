// What a screen reader, a keyboard or weak eyes would miss on the page as it is now: a sentence for each.
() => {
  const faults = [];
  const shown = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: false });
  const said = (node) => `<${node.tagName.toLowerCase()}${node.id ? ` #${node.id}` : ""}> ${node.textContent.trim().slice(0, 40)}`;
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);

  // names
  for (const field of all("input, select, textarea")) {
    const labels = [...(field.labels ?? [])].map((label) => label.textContent.trim()).join("");
    if (!labels && !field.getAttribute("aria-label")) faults.push(`no label: ${said(field)}`);
  }
  for (const each of all("button, summary, a, [role=tab]")) {
    if (!(each.getAttribute("aria-label") ?? each.textContent).trim()) faults.push(`no name: ${said(each)}`);
  }
  for (const each of all("[role=img], img")) {
    if (!each.hasAttribute("alt") && !each.getAttribute("aria-label")) faults.push(`no text in its place: ${said(each)}`);
  }

  // structure
  const one = { h1: "h1", main: "main", header: "body > header", footer: "body > footer" };
  for (const [name, selector] of Object.entries(one)) {
    if (all(selector).length !== 1) faults.push(`${all(selector).length} ${name}: expected one`);
  }
  if (!document.documentElement.lang) faults.push("no language");
  if (!document.title) faults.push("no title");
  let before = 1;
  for (const heading of all("h1, h2, h3, h4")) {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) faults.push(`heading skips a level: ${said(heading)}`);
    before = level;
  }
  for (const table of all("table")) {
    if (!table.caption?.textContent.trim()) faults.push("a table without a caption");
    if ([...table.querySelectorAll("th")].some((head) => !head.scope)) faults.push("a head of a table without a scope");
  }
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) faults.push(`the id ${id} is there twice`);
  for (const name of ["aria-controls", "aria-labelledby", "aria-describedby", "for"]) {
    for (const node of document.querySelectorAll(`[${name}]`)) {
      for (const id of node.getAttribute(name).split(/\s+/)) if (!ids.includes(id)) faults.push(`${name} names ${id}, which is not there`);
    }
  }

  // colours: WCAG 2.1, AA
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [red, green, blue] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let looked = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(node) || node.closest(".hidden, caption, option, script, noscript")) continue;
    const style = getComputedStyle(node);
    const pair = [light(rgba(style.color)), light(behind(node))].sort((less, more) => more - less);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    const size = Number.parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    looked += 1;
    if (ratio < (large ? 3 : 4.5)) faults.push(`contrast ${ratio.toFixed(2)}: ${said(node)}`);
  }
  if (looked < 10) faults.push(`only ${looked} texts were looked at`);

  // size of what is pressed, on any screen
  for (const each of all("button, .button, input:not([type=radio], [type=checkbox], [type=file]), select")) {
    const { height } = each.getBoundingClientRect();
    if (height < 24) faults.push(`${height} px high: ${said(each)}`);
  }
  return faults;
}
