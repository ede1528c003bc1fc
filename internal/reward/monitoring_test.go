package reward

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"assay/edit"
)

// exported returns the names of all metrics of a server, including metrics without a value.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	open := func(int) (edit.Judge, error) { return &fake{}, nil }
	copies, err := Replicate(1, 0, open)
	if err != nil {
		t.Fatal(err)
	}
	defer copies.Close()
	s, _ := start(t, Options{}, map[string]edit.Judge{"a": copies}, "a")
	ch := make(chan *prometheus.Desc, 1000)
	s.engine.metrics.registry.Describe(ch)
	close(ch)
	names, name := map[string]bool{}, regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range ch {
		names[name.FindStringSubmatch(d.String())[1]] = true
	}
	return names
}

// TestMonitoring: the server exports every metric used in examples/monitoring.
func TestMonitoring(t *testing.T) {
	names := exported(t)
	folder := filepath.Join("..", "..", "examples", "monitoring")
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	raw := read(t, folder, "dashboard.json")
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	texts := map[string][]string{"alerts.yaml": {string(read(t, folder, "alerts.yaml"))},
		"alerts_test.yaml": {string(read(t, folder, "alerts_test.yaml"))}}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			texts["panel "+p.Title] = append(texts["panel "+p.Title], target.Expr)
		}
	}
	for _, v := range board.Templating.List {
		texts["variables"] = append(texts["variables"], v.Definition)
	}
	metric := regexp.MustCompile(`\b(?:assay|process|go)_[a-z0-9_]+`)
	found := map[string]bool{}
	for where, list := range texts {
		t.Run(where, func(t *testing.T) {
			for _, name := range metric.FindAllString(strings.Join(list, "\n"), -1) {
				found[name] = true
				base := name
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					base = strings.TrimSuffix(base, suffix)
				}
				if !names[name] && !names[base] {
					t.Errorf("got %s, want a metric that the server exports", name)
				}
			}
		})
	}
	for _, name := range []string{"assay_requests_total", "assay_queue_delay_seconds_bucket", "assay_score01_sum",
		"assay_failures_total", "assay_stage_seconds_sum", "process_resident_memory_bytes"} {
		if !found[name] {
			t.Errorf("%s: got no use of it, want one", name)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "README.md")); err != nil {
		t.Error(err)
	}
}

// TestAlertsAreTested: alerts_test.yaml has exactly the alerts, and for the quiet server a series of every metric in
// an alert, without which the alert could not fire.
func TestAlertsAreTested(t *testing.T) {
	folder := filepath.Join("..", "..", "examples", "monitoring")
	alerts, tests := string(read(t, folder, "alerts.yaml")), string(read(t, folder, "alerts_test.yaml"))
	names := func(pattern, text string) []string {
		found := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
		return slices.Sorted(maps.Keys(found))
	}
	quiet, others, _ := strings.Cut(tests, "\n\n")
	want := names(`alert: (\w+)`, alerts)
	for where, text := range map[string]string{"the quiet server": quiet, "the others": others} {
		if got := names(`alertname: (\w+)`, text); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", where, got, want)
		}
	}
	series := names(`series: '(\w+)`, quiet)
	expressions := regexp.MustCompile(`(description|summary|#).*`).ReplaceAllString(alerts, "")
	for _, m := range names(`\b(assay_\w+)[{\[ ]`, expressions) {
		if m != "assay_asleep" && !slices.Contains(series, m) { // the quiet server is awake
			t.Errorf("got no series of %s for the quiet server, want one", m)
		}
	}
}
