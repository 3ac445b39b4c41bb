// A file dropped anywhere on a panel.

export function drops(panel, take) {
  const holds = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  panel.addEventListener("dragover", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    panel.classList.add("over");
  });
  panel.addEventListener("dragleave", (event) => {
    if (!panel.contains(event.relatedTarget)) panel.classList.remove("over");
  });
  panel.addEventListener("drop", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    panel.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
}
