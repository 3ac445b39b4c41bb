// A case that is an image: a file, or pixels as a validation case has them; either way it is drawn, never loaded from
// an address.
import { el, fill } from "./dom.js";

const SIZE = 224;

export class Picture {
  constructor(place, shape, changed) {
    [this.changed, this.file, this.pixels] = [changed, null, null];
    const [channels, height, width] = shape;
    this.canvas = el("canvas", { role: "img", "aria-label": "The image", hidden: true });
    this.said = el("p", { class: "error", role: "alert" });
    this.input = el("input", { type: "file", id: "picture-file", accept: "image/png,image/jpeg", "aria-describedby": "picture-hint" });
    this.input.addEventListener("change", () => this.take(this.input.files[0]));
    fill(place, el("div", { class: "picture" }, this.canvas,
      el("div", {}, el("label", { class: "button file" }, "Choose an image", this.input),
        el("p", { class: "hint", id: "picture-hint" }, `PNG or JPEG, or drop or paste one; the models see ${width} × ${height} ${channels === 1 ? "grey values" : "pixels"}.`), this.said)));
  }

  async take(file) {
    if (!file) return;
    this.clear();
    try {
      const image = await createImageBitmap(file);
      this.draw(image.width, image.height, (context) => context.drawImage(image, 0, 0));
      this.file = file;
      this.changed();
    } catch {
      this.said.textContent = `“${file.name}” cannot be read as an image: expected PNG or JPEG.`;
    }
  }

  show({ pixels }) {
    this.clear();
    if (!Array.isArray(pixels)) return [];
    this.pixels = pixels;
    const planes = Array.isArray(pixels[0][0]) ? pixels : [pixels];
    const [height, width] = [planes[0].length, planes[0][0].length];
    this.draw(width, height, (context) => {
      const data = context.createImageData(width, height);
      for (let at = 0; at < width * height; at++) {
        const [y, x] = [Math.floor(at / width), at % width];
        const colour = [0, 1, 2].map((plane) => planes[planes.length === 3 ? plane : 0][y][x]);
        data.data.set([...colour, 255], 4 * at);
      }
      context.putImageData(data, 0, 0);
    });
    return [];
  }

  draw(width, height, act) {
    Object.assign(this.canvas, { width, height, hidden: false });
    const scale = SIZE / Math.max(width, height);
    this.canvas.style.width = `${width * scale}px`;
    this.canvas.style.aspectRatio = `${width} / ${height}`;
    this.canvas.classList.toggle("coarse", scale > 1.5);
    act(this.canvas.getContext("2d"));
  }

  body() {
    if (this.pixels) return { row: { pixels: this.pixels } };
    if (this.file) return { file: this.file };
    this.said.textContent = "There is no image yet: choose, drop or paste one.";
    return null;
  }

  clear() {
    [this.file, this.pixels] = [null, null];
    this.input.value = "";
    this.canvas.hidden = true;
    this.said.textContent = "";
  }

  clearErrors() {
    this.said.textContent = "";
  }

  error(field, message) {
    this.said.textContent = message;
    return true;
  }

  focusFirstError() {
    this.input.focus();
  }
}
