// What a reader of the open page cannot read: a list of sentences. An expression, which Chromium is asked for.
(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  const printed = matchMedia("print").matches;
  const named = (element) => {
    const own = element.id ? `#${element.id}` : element.classList.length ? `.${[...element.classList].join(".")}` : "";
    const words = (element.alt || element.textContent).trim().replace(/\s+/g, " ").slice(0, 40);
    return `<${element.localName}${own}> “${words}”`;
  };
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const scroller = (element) => {
    for (let each = element.parentElement; each && each !== document.body; each = each.parentElement) {
      if (scrolls(each)) return each;
    }
    return null;
  };

  if (document.documentElement.scrollWidth > width + 1) {
    found.push(`the page is ${document.documentElement.scrollWidth} px wide, and what shows it ${width}`);
  }
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    if ((printed || !scroller(element)) && (box.right > width + 1 || box.left < -1)) {
      found.push(`${named(element)} is cut off: from ${Math.round(box.left)} to ${Math.round(box.right)} of ${width} px`);
    }
    const hides = ["hidden", "clip"].includes(getComputedStyle(element).overflowX) || (printed && scrolls(element));
    if (hides && element.scrollWidth > element.clientWidth + 1) {
      found.push(`${named(element)} hides ${element.scrollWidth - element.clientWidth} px of what it holds`);
    }
  }

  // Lines of text and images, each as much as is seen of it, from top to bottom.
  const boxes = [];
  const see = (element, box) => {
    const frame = scroller(element)?.getBoundingClientRect() ?? { left: -Infinity, right: Infinity };
    const seen = { left: Math.max(box.left, frame.left), right: Math.min(box.right, frame.right), top: box.top, bottom: box.bottom };
    if (seen.right - seen.left > 1 && seen.bottom - seen.top > 1) boxes.push({ ...seen, element });
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (!text.data.trim()) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const box of range.getClientRects()) see(text.parentElement, box);
  }
  for (const image of document.images) {
    if (!image.complete || !image.naturalWidth) found.push(`${named(image)} is not shown`);
    see(image, image.getBoundingClientRect());
  }
  boxes.sort((one, other) => one.top - other.top);
  boxes.forEach((one, place) => {
    for (const other of boxes.slice(place + 1, place + 400)) {
      const common = Math.min(one.bottom, other.bottom) - other.top;
      if (other.top >= one.bottom) break;
      const least = Math.min(one.bottom - one.top, other.bottom - other.top);
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      if (common > least / 4 && across > 1) found.push(`${named(one.element)} and ${named(other.element)} overlap`);
    }
  });
  return found;
})();
