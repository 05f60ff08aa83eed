// The one WebSocket of a tab: opens it, opens it again when it falls, and hands frames to whoever asked for their type.
"use strict";
window.volta = (() => {
  const handlers = new Map(); // frame type -> function(frame)
  const greetings = []; // functions returning a message to send after each connect
  const RETRY_MS = [250, 500, 1000, 2000, 5000];
  const SILENT_MS = 25000; // the panel beats every 10 s: after this much silence the line is dead
  let socket = null, tries = 0, heardAt = 0;

  const send = (message) => {
    if (!socket || socket.readyState !== WebSocket.OPEN) return false;
    socket.send(JSON.stringify(message));
    return true;
  };
  const connected = (yes) => document.body.classList.toggle("vp-disconnected", !yes);

  function open() {
    const address = new URL("live", document.baseURI);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const mine = socket = new WebSocket(address);
    heardAt = performance.now();
    mine.onopen = () => { tries = 0; connected(true); greetings.forEach((greet) => { const message = greet(); if (message) send(message); }); };
    mine.onmessage = (event) => {
      heardAt = performance.now();
      for (const frame of JSON.parse(event.data)) handlers.get(frame.type)?.(frame);
    };
    mine.onclose = () => {
      if (socket !== mine) return;
      socket = null;
      connected(false);
      setTimeout(open, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
    };
  }
  setInterval(() => { if (socket && performance.now() - heardAt > SILENT_MS) socket.close(); }, 5000);

  return { start: open, send, on: (type, handler) => handlers.set(type, handler), greet: (greeting) => greetings.push(greeting) };
})();
