// Rows out of pasted or uploaded text: CSV with a header (comma, semicolon or tab) or JSON. Values stay as they are
// written: the service judges them.

export function readRows(text) {
  const trimmed = text.replace(/^\uFEFF/, "").trim();
  if (!trimmed) throw new Error("There is nothing to read: expected a header line and a row, or JSON.");
  return /^[{[]/.test(trimmed) ? fromJson(trimmed) : fromCsv(trimmed);
}

function fromJson(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON (${error.message}): expected {"name": value, …}.`);
  }
  const rows = found.rows ?? (Array.isArray(found) ? found : [found.row ?? found]);
  if (!rows.length || rows.some((row) => row === null || typeof row !== "object" || Array.isArray(row))) {
    throw new Error('Expected {"name": value, …}, or a list of them.');
  }
  return rows;
}

function fromCsv(text) {
  const [header, ...lines] = cells(text);
  if (!lines.length) throw new Error("There is only one line: expected a header line with the names, and a row under it.");
  const odd = lines.findIndex((line) => line.length !== header.length);
  if (odd >= 0) {
    throw new Error(`Row ${odd + 1} has ${lines[odd].length} values, the header has ${header.length} names: expected as many.`);
  }
  const names = header.map((name) => name.trim());
  return lines.map((line) => Object.fromEntries(names.map((name, place) => [name, line[place].trim()])));
}

const DELIMITERS = [",", ";", "\t"];

function delimiterOf(text) {
  const line = text.split(/\r?\n/, 1)[0];
  return DELIMITERS.reduce((best, each) => (line.split(each).length > line.split(best).length ? each : best));
}

export function cells(text) {
  const delimiter = delimiterOf(text);
  const lines = [];
  let line = [], cell = "", quoted = false;
  const endLine = () => {
    line.push(cell);
    if (line.length > 1 || line[0].trim()) lines.push(line);
    line = [];
    cell = "";
  };
  for (let place = 0; place < text.length; place++) {
    const one = text[place];
    if (quoted) {
      if (one !== '"') cell += one;
      else if (text[place + 1] === '"') cell += text[++place];
      else quoted = false;
    } else if (one === '"' && !cell.trim()) [quoted, cell] = [true, ""];
    else if (one === delimiter) {
      line.push(cell);
      cell = "";
    } else if (one === "\n") endLine();
    else if (one !== "\r") cell += one;
  }
  endLine();
  return lines;
}

// A cell that a spreadsheet would take for a formula begins with an apostrophe.
const cellText = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export const csvText = (lines) => lines.map((line) => line.map(cellText).join(",") + "\n").join("");

// As the service reads it: with commas, whatever it came with.
export const withCommas = (text) => (delimiterOf(text) === "," ? text
  : cells(text).map((line) => line.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(",")).join("\n"));
