package reward

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what GET /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // by path and code
	errors   *prometheus.CounterVec   // by kind: of requests, and of items
	batch    prometheus.Histogram     // items of a run
	latency  *prometheus.HistogramVec // seconds of requests that were answered, by path
	scores   *prometheus.HistogramVec // score01 by scorer
	edits    *prometheus.CounterVec   // by client
}

func newMetrics(waiting func() float64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "assay_requests_total", Help: "Requests by path and status."}, []string{"path", "code"}),
		errors:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "assay_errors_total", Help: "Errors of requests and of items, by kind."}, []string{"kind"}),
		batch:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "assay_batch_items", Help: "Edits scored in one run.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "assay_latency_seconds", Help: "From a request to its answer, errors not counted.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 17)}, []string{"path"}),
		scores: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "assay_score01", Help: "Scores given, 0 to 1.", Buckets: prometheus.LinearBuckets(0, 0.1, 11)}, []string{"scorer"}),
	}
	m.edits = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "assay_client_edits_total", Help: "Edits admitted, by client."}, []string{"client"})
	queue := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "assay_queue_items", Help: "Edits admitted and not yet scored."}, waiting)
	m.registry.MustRegister(m.requests, m.errors, m.batch, m.latency, m.scores, m.edits, queue, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
