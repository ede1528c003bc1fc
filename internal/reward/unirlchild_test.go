package reward

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"assay/edit"
)

// childHealth waits until the server knows its fingerprint.
func childHealth(t *testing.T, url string) (state string, scorer map[string]any) {
	t.Helper()
	for range 500 {
		r, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(r.Body)
		r.Body.Close()
		var h struct {
			State  string
			Scorer map[string]any
		}
		if err := json.Unmarshal(raw, &h); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if h.State != "loading" {
			return h.State, h.Scorer
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("still in state loading after 5 s")
	return "", nil
}

// printed is a fake with a fingerprint.
type printed struct{ fake }

func (*printed) Fingerprint() (string, error) { return "print-1", nil }

// TestUniRLIdentities: the identity of a request is returned, with the judge's fingerprint; a retry with the same
// keys is answered without judging again.
func TestUniRLIdentities(t *testing.T) {
	judge := &printed{}
	_, h := start(t, Options{}, map[string]edit.Judge{"a": judge}, "a")
	request := func(key any) object {
		source, edit := object{"text": "x", "image_b64": png(t, 9, 4, 4)}, object{"text": "x", "image_b64": png(t, 51, 4, 4)}
		return object{"history": []any{source, edit},
			"required_rewards": []string{"a"}, "request_id": "r1", "sample_id": "s", "group_id": nil, "source_rank": 3,
			"policy_version": 7, "scorer_version": "other", "idempotency_key": key}
	}
	ask := func(version string, requests ...any) (int, []map[string]any, string) {
		code, _, raw := post(t, h.URL+"/score", object{"protocol_version": version, "requests": requests})
		var a struct{ Identities []map[string]any }
		if err := json.Unmarshal(raw, &a); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		return code, a.Identities, string(raw)
	}
	code, got, raw := ask("1", request("k1"), request("k2"))
	if code != 200 || len(got) != 2 || !strings.Contains(raw, `"protocol_version":"1"`) {
		t.Fatalf("got %d %s, want two identities of version 1", code, raw)
	}
	want := map[string]any{"request_id": "r1", "sample_id": "s", "group_id": nil, "source_rank": 3.0,
		"policy_version": 7.0, "scorer_version": "print-1", "idempotency_key": "k2"}
	for name, value := range want {
		if v, there := got[1][name]; !there || v != value {
			t.Errorf("%s: got %v, want %v", name, v, value)
		}
	}
	judged := func() int {
		judge.mu.Lock()
		defer judge.mu.Unlock()
		n := 0
		for _, run := range judge.runs {
			n += run
		}
		return n
	}
	before := judged()
	if _, _, again := ask("1", request("k1"), request("k2")); again != raw || judged() != before {
		t.Errorf("got %s after %d more edits, want %s after none", again, judged()-before, raw)
	}
	for _, key := range []any{nil, ""} { // no key: judged again
		ask("1", request(key))
		ask("1", request(key))
	}
	if judged() != before+4 {
		t.Errorf("got %d edits without keys judged, want 4", judged()-before)
	}
	other := request("k1") // from another rank, which scores the same sample
	other["source_rank"] = 4
	ask("1", request("k1"))
	if code, got, raw := ask("1", other); code != 200 || got[0]["source_rank"] != 4.0 {
		t.Errorf("got %d %s, want an answer to rank 4", code, raw)
	}
	if code, _, raw := ask("2", request("k3")); code != 400 || !strings.Contains(raw, "protocol_version") {
		t.Errorf("got %d %s, want an error about version 2", code, raw)
	}
}

// TestUniRLLifecycle: the state of a server that UniRL started. A judge without weights cannot be offloaded.
func TestUniRLLifecycle(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &printed{}}, "a")
	state, scorer := childHealth(t, h.URL)
	if state != "resident" || scorer["version"] != "print-1" || scorer["input_kind"] != "image" ||
		scorer["supports_offload"] != false {
		t.Errorf("got %s, %v; want resident, print-1, image, no offload", state, scorer)
	}
	for action, want := range map[string]int{"onload": 200, "offload": 409, "drain": 200, "shutdown": 200,
		"explode": 422} {
		t.Run(action, func(t *testing.T) {
			if code, _, raw := post(t, h.URL+"/lifecycle/"+action, object{}); code != want {
				t.Errorf("got %d %s, want %d", code, raw, want)
			}
		})
	}
}
