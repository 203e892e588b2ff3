// Exports traces by OpenTelemetry's JavaScript SDK: `node emit.cjs json|proto URL TRACES OUT`.
// To OUT goes what was exported together, and from when to when (seconds since 1970) that was on its way.
const { writeFileSync } = require("node:fs");
const { ROOT_CONTEXT, trace } = require("@opentelemetry/api");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");

const [protocol, url, traces, out] = process.argv.slice(2);
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${protocol === "json" ? "http" : "proto"}`);
const PATIENCE = 120_000;
const exporter = new OTLPTraceExporter({ url: `${url}/v1/traces`, timeoutMillis: PATIENCE });
const requests = [];
const send = exporter.export.bind(exporter);
exporter.export = (spans, done) => {
  const told = { ids: spans.map((one) => [one.spanContext().traceId, one.spanContext().spanId]), begin: Date.now() / 1000 };
  requests.push(told);
  send(spans, (result) => { told.end = Date.now() / 1000; told.code = result.code; done(result); });
};
const processor = new BatchSpanProcessor(exporter, {
  maxQueueSize: 1_000_000, maxExportBatchSize: 512, scheduledDelayMillis: 10, exportTimeoutMillis: PATIENCE,
});
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ "service.name": `javascript-${protocol}` }), spanProcessors: [processor],
});
const tracer = provider.getTracer("openinference.test", "1");

function span(name, kind, attributes, context) {
  const made = tracer.startSpan(name, { attributes: { "openinference.span.kind": kind, ...attributes } }, context);
  return [made, trace.setSpan(context, made)];
}

async function main() {
  for (let n = 0; n < Number(traces); n += 1) {
    const query = `What about the ferry of town ${n}?`;
    const fact = `The ferry of town ${n} leaves at ${6 + (n % 6)}:30 every day`;
    const [root, inside] = span("ask", "CHAIN", { "input.value": query }, ROOT_CONTEXT);
    span("find", "RETRIEVER", { "input.value": query, "retrieval.documents.0.document.content": `${fact}.` }, inside)[0].end();
    for (let step = 0; step < 8; step += 1) span(`step ${step}`, "CHAIN", { step, note: "é".repeat(50) }, inside)[0].end();
    root.setAttribute("output.value", `${fact} [1].`);
    root.end();
    if (n % 50 === 49) await new Promise((go) => setImmediate(go));
  }
  await provider.forceFlush();
  await provider.shutdown();
  writeFileSync(out, JSON.stringify(requests));
}

main();
