package reward

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"assay/edit"
)

// metrics are the metrics of GET /metrics.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // by path and code
	errors   *prometheus.CounterVec   // of requests and items, by kind
	batch    prometheus.Observer      // items per run
	latency  *prometheus.HistogramVec // seconds of successful requests, by path
	scores   *prometheus.HistogramVec // score01 by scorer
	edits    *prometheus.CounterVec   // by client
	delay    prometheus.Observer      // seconds that work waited for a device
	stages   *prometheus.HistogramVec // seconds by stage and scorer
	values   *prometheus.SummaryVec   // scores by scorer, on its range
	asked    *prometheus.CounterVec   // requested edits, by scorer
	failed   *prometheus.CounterVec   // edits without a score or gradient, by scorer and kind of error
	pictures *prometheus.CounterVec   // by source
	retries  prometheus.Counter       // requests answered from the work of an earlier one
	info     *prometheus.GaugeVec     // 1 for each scorer, with its identity
	sleeps   *prometheus.GaugeVec     // memory in bytes when the scorers last fell asleep

	dimensions  *prometheus.CounterVec   // scores of dimensions, by scorer and dimension
	dimension01 *prometheus.HistogramVec // the same on 0 to 1, for scorers with a range
}

// observe counts a score, and its dimensions.
func (m *metrics) observe(scorer string, s *edit.Score, r edit.Range) {
	if !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
		m.values.WithLabelValues(scorer).Observe(s.Value)
		if !s.Unbounded {
			m.scores.WithLabelValues(scorer).Observe(s.Score01)
		}
	}
	for _, d := range s.Dimensions {
		m.dimensions.WithLabelValues(scorer, d.Name).Inc()
		if !s.Unbounded && d.Class == "" {
			m.dimension01.WithLabelValues(scorer, d.Name).Observe(r.To01(d.Value))
		}
	}
}

// stage records the time of a stage: decode (a picture), prepare (an edit for a scorer), wait (prepared edits for a
// device), model (a run).
func (m *metrics) stage(stage, scorer string, d time.Duration) {
	m.stages.WithLabelValues(stage, scorer).Observe(d.Seconds())
}

// judged counts items, and items with an error. It does not count canceled items, and items without their own error
// in a request that failed with err.
func (m *metrics) judged(items []*item, err error) {
	for _, it := range items {
		switch {
		case it.err == nil && err == nil:
			m.asked.WithLabelValues(it.scorer.name).Inc()
		case it.err != nil && toAPIError(it.err).Kind != "canceled":
			m.asked.WithLabelValues(it.scorer.name).Inc()
			m.failure(it.scorer, 1, it.err)
		}
	}
}

// failure counts edits that a scorer could not judge.
func (m *metrics) failure(v *Replicated, edits int, err error) {
	m.failed.WithLabelValues(v.name, toAPIError(err).Kind).Add(float64(edits))
}

// refused counts edits that are all refused because of their common source or instruction.
func (m *metrics) refused(judges []*Replicated, edits int, err error) {
	for _, v := range judges {
		m.asked.WithLabelValues(v.name).Add(float64(edits))
		m.failure(v, edits, err)
	}
}

// picture counts a picture, either decoded or from the cache.
func (m *metrics) picture(cached bool) {
	from := "decoder"
	if cached {
		from = "cache"
	}
	m.pictures.WithLabelValues(from).Inc()
}

// slept records the memory use before and after the scorers fell asleep.
func (m *metrics) slept(before, after memoryUse) {
	m.sleeps.WithLabelValues("resident", "before").Set(float64(before.resident))
	m.sleeps.WithLabelValues("resident", "after").Set(float64(after.resident))
	if before.device > 0 {
		m.sleeps.WithLabelValues("device", "before").Set(float64(before.device))
		m.sleeps.WithLabelValues("device", "after").Set(float64(after.device))
	}
}

// countError counts an error and returns it in the form in which it is sent.
func (m *metrics) countError(err error) *apiError {
	f := toAPIError(err)
	m.errors.WithLabelValues(f.Kind).Inc()
	return f
}

func newMetrics(waiting, foreseen func() float64) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	register := promauto.With(m.registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return register.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	tenths := prometheus.LinearBuckets(0, 0.1, 11)
	m.requests = counter("assay_requests_total", "Requests by path and status.", "path", "code")
	m.errors = counter("assay_errors_total", "Errors of requests and, once for each scorer, of edits, by kind.", "kind")
	m.edits = counter("assay_client_edits_total", "Edits admitted, by client.", "client")
	m.batch = histogram("assay_batch_items", "Edits scored in one run.",
		prometheus.ExponentialBuckets(1, 2, 9)).WithLabelValues()
	m.latency = histogram("assay_latency_seconds", "Time from a request to its response, without errors.",
		prometheus.ExponentialBuckets(0.001, 2, 17), "path")
	m.delay = histogram("assay_queue_delay_seconds", "How long prepared edits waited for a device.",
		prometheus.ExponentialBuckets(0.001, 2, 20)).WithLabelValues()
	m.stages = histogram("assay_stage_seconds", "Time by stage and scorer: decode (a picture), prepare (an edit), wait "+
		"(prepared edits, for a device), model (a run of edits).", prometheus.ExponentialBuckets(0.001, 2, 17), "stage",
		"scorer")
	m.values = register.NewSummaryVec(prometheus.SummaryOpts{Name: "assay_score",
		Help: "Scores, on the scorer's range: sum / count is their mean."}, []string{"scorer"})
	m.asked = counter("assay_edits_total", "Requested edits, judged or not, by scorer.", "scorer")
	m.failed = counter("assay_failures_total", "Edits that got no score or gradient, by scorer and kind of error.",
		"scorer", "kind")
	m.info = register.NewGaugeVec(prometheus.GaugeOpts{Name: "assay_scorer_info",
		Help: "1 for each scorer, with its fingerprint and the server's version."},
		[]string{"scorer", "fingerprint", "version"})
	m.sleeps = register.NewGaugeVec(prometheus.GaugeOpts{Name: "assay_sleep_memory_bytes",
		Help: "Memory before and after the scorers fell asleep the last time: resident, of this process; device, in use " +
			"on the scorers' CUDA devices."}, []string{"memory", "when"})
	m.pictures = counter("assay_pictures_total", "Pictures by source: decoder, cache.", "from")
	m.retries = counter("assay_retries_total",
		"Requests answered from the work of an earlier request with the same id.").WithLabelValues()
	m.scores = histogram("assay_score01", "Scores, 0 to 1.", tenths, "scorer")
	m.dimensions = counter("assay_dimension_scores_total", "Scores of dimensions, by scorer and dimension.",
		"scorer", "dimension")
	m.dimension01 = histogram("assay_dimension_score01", "Scores of dimensions, 0 to 1.", tenths,
		"scorer", "dimension")
	m.gauge("assay_queue_items", "Edits admitted and not yet scored.", waiting)
	m.gauge("assay_queue_foreseen_seconds", "Estimated wait of a new edit for a device.",
		foreseen)
	return m
}

func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// memory registers gauges of the memory of request bodies.
func (m *metrics) memory(of *memory) {
	gauge := func(name, help string, value func() int64) {
		m.gauge(name, help, func() float64 {
			of.mu.Lock()
			defer of.mu.Unlock()
			return float64(value())
		})
	}
	gauge("assay_memory_held_bytes", "Memory that requests hold.", func() int64 { return of.held("") })
	gauge("assay_memory_limit_bytes", "Memory that requests may hold.", func() int64 { return of.size })
	gauge("assay_memory_waiting_requests", "Requests whose bodies wait for memory.",
		func() int64 { return int64(len(of.waiting)) })
}

// copies registers metrics of the replicas of a scorer.
func (m *metrics) copies(v *Replicated) {
	for i := range v.at {
		labels := prometheus.Labels{"scorer": v.name, "replica": strconv.Itoa(i)}
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "assay_replica_up", Help: "Whether a copy of a scorer works (1) or is being reopened (0).",
			ConstLabels: labels,
		}, func() float64 {
			if v.replica(i) == nil {
				return 0
			}
			return 1
		}), prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "assay_replica_restarts_total", Help: "How often a copy of a scorer failed and was reopened.",
			ConstLabels: labels,
		}, func() float64 { return float64(v.restarts(i)) }))
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
