package reward

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/edit"
	"assay/internal/long"
)

// Invalid text is refused with the name of its field, and so are duplicate fields.
func TestUncleanJSON(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	picture, err := json.Marshal(png(t, 1, 5, 5))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, body, field string }{
		{"/v1/score", `{"source": P, "edits": [P], "instruction": "\ud800 x"}`, "instruction"},
		{"/v1/score", `{"source": P, "edits": [P], "instruction": "\udc00\ud800"}`, "instruction"},
		{"/v1/score", "{\"source\": P, \"edits\": [P], \"instruction\": \"\xff\"}", "instruction"},
		// an unpaired surrogate in UTF-8
		{"/v1/score", "{\"source\": P, \"edits\": [P], \"instruction\": \"\xed\xa0\x80\"}", "instruction"},
		{"/v1/score", "{\"source\": P, \"edits\": [P, \"\xff\"], \"instruction\": \"x\"}", "edits/1"},
		{"/v1/score", `{"source": P, "edits": [P], "instruction": "x", "instruction": "y"}`, "instruction"},
		{"/v1/score", `{"source": P, "edits": [NaN], "instruction": "x"}`, "edits/0"},
		{"/v1/score", `{"source": P, "edits": [P], "instruction": Infinity}`, "instruction"},
		{"/v1/gradient", `{"source": P, "edit": P, "instruction": "\ud800"}`, "instruction"},
		{"/v1/gradient", `{"pairs": [{"source": P, "edit": P, "instruction": "a\udfff"}]}`, "pairs/0/instruction"},
		{"/v1/gradient", `{"source": P, "edit": P, "edit": P, "instruction": "x"}`, "edit"},
		{"/score", `{"requests": [{"history": [{"text": "\ud800", "image_b64": P}]}]}`, "requests/0/history/0/text"},
		{"/score", `{"requests": [{"history": [], "metadata": {"w": NaN}}]}`, "requests/0/metadata/w"},
		{"/score", `{"requests": [{"history": [], "required_rewards": ["a\ud800"]}]}`, "requests/0/required_rewards/0"},
	} {
		code, _, raw := post(t, h.URL+c.path, bytes.ReplaceAll([]byte(c.body), []byte("P"), picture))
		if got := decodeScores(t, raw); code != 400 || got.Error == nil ||
			!strings.HasPrefix(got.Error.Message, c.field+": ") {
			t.Errorf("%s %q: %d %s; want 400 with %s", c.path, c.body, code, raw, c.field)
		}
	}
	if code, _, raw := post(
		t,
		h.URL+"/v1/score",
		bytes.ReplaceAll([]byte(`{"source": P, "edits": [P], "instruction": "\ud83d\ude00 é"}`), []byte("P"), picture),
	); code != 200 {
		t.Errorf("a pair of surrogates: %d %s", code, raw)
	}
	for _, c := range []struct {
		path, want string
		fields     []string
	}{
		{"/v1/score", "instruction is not UTF-8", []string{"instruction", "a\xff"}},
		{"/v1/score", "instruction: duplicate field", []string{"instruction", "a", "instruction", "b"}},
		{"/v1/score", "source: duplicate field", []string{"source", "a", "edits", "x", "edits", "y", "source", "b"}},
		{"/v1/score?scorer=b", `\"scorer=b\" in the URL`, []string{"instruction", "a"}},
	} {
		var form bytes.Buffer
		m := multipart.NewWriter(&form)
		for i := 0; i < len(c.fields); i += 2 {
			m.WriteField(c.fields[i], c.fields[i+1])
		}
		m.Close()
		r, err := http.Post(h.URL+c.path, m.FormDataContentType(), &form)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if raw, _ := io.ReadAll(r.Body); r.StatusCode != 400 || !bytes.Contains(raw, []byte(c.want)) {
			t.Errorf("a form: %d %s, want %s", r.StatusCode, raw, c.want)
		}
	}
}

// Every refusal is JSON, and says what is accepted instead.
func TestRefusalsAreJSON(t *testing.T) {
	s, err := NewServer(Options{}, []string{"a"}, []edit.Judge{&fake{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url, stop := serve(t, s)
	defer stop()
	address := strings.TrimPrefix(url, "http://")
	body := "Content-Length: 2\r\n\r\n{}"
	for _, c := range []struct {
		name, request string
		code          int
		kind, header  string
	}{
		{"method", "GET /v1/score HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method", "Allow: POST"},
		{"method of a page", "DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method", "Allow: GET, HEAD"},
		{"OPTIONS", "OPTIONS /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method", "Allow: GET, HEAD"},
		{"metrics", "POST /metrics HTTP/1.1\r\nHost: localhost\r\n" + body, 405, "method", "Allow: GET, HEAD"},
		{"path", "GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "not_found", ""},
		{"media type", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n" + body, 415, "media_type",
			""},
		{"encoding", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n" + body, 415, "media_type",
			""},
		{"form without a boundary", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data\r\n" +
			body, 400, "bad_request", ""},
		{"declared length", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
			"900000000000\r\n\r\n", 413, "too_large", ""},
		{"another site", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n" + body, 403,
			"forbidden", ""},
		{"another name", "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "forbidden", ""},
		{"large head", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", 431,
			"too_large", ""},
		{"no HTTP", "hello\r\n\r\n", 400, "bad_request", ""},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, "bad_request", ""},
		{"damaged length", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400, "bad_request", ""},
		{"unknown transfer", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x\r\n\r\n", 501, "bad_request",
			""},
		{"damaged chunks", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
			"bad_request", ""},
		{"unclean path", "GET //v1/../health?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 307, "redirect",
			"Location: /health?x=1"},
		{"unclean path of a body", "POST /v1//score HTTP/1.1\r\nHost: localhost\r\n" + body, 307, "redirect",
			"Location: /v1/score"},
		{"a path of another site", "GET /\\evil.example// HTTP/1.1\r\nHost: localhost\r\n\r\n", 307, "redirect",
			"Location: /%5Cevil.example/"},
		{"an escaped path", "GET //a%2Fb%2520c?x=%20y HTTP/1.1\r\nHost: localhost\r\n\r\n", 307, "redirect",
			"Location: /a%2Fb%2520c?x=%20y"},
		{"expectation", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nExpect: a-cake\r\n" + body, 417, "bad_request", ""},
		{"half a body", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", 400, "bad_request", ""},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			io.WriteString(conn, c.request)
			conn.(*net.TCPConn).CloseWrite()
		}()
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		raw, _ := io.ReadAll(r.Body)
		var v struct {
			Error struct{ Kind, Message string }
		}
		err = json.Unmarshal(raw, &v)
		name, value, _ := strings.Cut(c.header, ": ")
		if err != nil || r.StatusCode != c.code || v.Error.Kind != c.kind || v.Error.Message == "" ||
			r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get(name) != value {
			t.Errorf("%s: %d %v %s", c.name, r.StatusCode, r.Header, raw)
		}
		conn.Close()
	}
}

// A client that sends all of a large body before reading gets the refusal; one that sends without end is cut off.
func TestRefusalsAreHeard(t *testing.T) {
	_, h := start(t, Options{MaxBody: 8 << 20, Token: "secret-token"}, map[string]edit.Judge{"a": &fake{}}, "a")
	for _, c := range []struct {
		name, path, token string
		size              int
		code              int
	}{
		{"no token", "/v1/score", "", 7 << 20, 401},
		{"wrong path", "/v1/scores", "Bearer secret-token", 7 << 20, 404},
		{"too large", "/v1/score", "Bearer secret-token", 15 << 20, 413},
		{"not JSON", "/v1/score", "Bearer secret-token", 7 << 20, 400},
		{"not JSON of UniRL", "/score", "Bearer secret-token", 7 << 20, 400},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n",
			c.path, c.token, c.size)
		if _, err := conn.Write(bytes.Repeat([]byte("x"), c.size)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if r.StatusCode != c.code {
			t.Errorf("%s: %d, want %d", c.name, r.StatusCode, c.code)
		}
		conn.Close()
	}
}

// 64 clients whose bodies are many times the memory limit are all answered, and the limit is not exceeded.
func TestRanksWaitForMemory(t *testing.T) {
	long.Test(t)
	const most = 4 << 20
	f := &fake{}
	s, h := start(t, Options{Memory: most, Batch: 4}, map[string]edit.Judge{"a": f}, "a")
	source := noise(t, 200) // 120 KB
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			var requests []any
			for k := range 6 {
				edit := png(t, byte(6*(i%32)+k), 40, 40)
				history := []any{object{"text": "x", "image_b64": source}, object{"text": "x", "image_b64": edit}}
				requests = append(requests, object{"history": history, "required_rewards": []string{"a"}})
			}
			code, _, raw := post(t, h.URL+"/score", object{"requests": requests})
			var got struct {
				Results []map[string]map[string]float64
			}
			if err := json.Unmarshal(raw, &got); err != nil || code != 200 || len(got.Results) != 6 {
				t.Errorf("rank %d: %d %.200s", i, code, raw)
				return
			}
			for k, r := range got.Results {
				if want := 10 * float64(6*(i%32)+k) / 255; !(math.Abs(r["a"]["score"]-want) <= 1e-9) {
					t.Errorf("rank %d, edit %d: %v, want %g", i, k, r, want)
				}
			}
		})
	}
	all.Wait()
	memory, slots := s.front.bodies.memory, &s.engine.slots
	if memory.held("") > 0 || len(memory.holds) > 0 || !slots.TryAcquire(slots.n) {
		t.Error("memory was not released")
	}
	if len(s.engine.queue.reservations) > 0 {
		t.Error("reservations are left")
	}
}

// Values that cost more memory than their bytes do not fill the memory.
func TestHostileBodies(t *testing.T) {
	_, h := start(t, Options{MaxBody: 32 << 20}, map[string]edit.Judge{"a": &fake{}}, "a")
	tiny, err := json.Marshal(png(t, 1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int, v string) string { return "[" + strings.Repeat(v+",", n-1) + v + "]" }
	bomb := png(t, 1, 5, 5)
	copy(bomb[16:], []byte{0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30}) // 30,000 x 30,000
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	bombed, err := json.Marshal(bomb)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	for _, c := range []struct {
		name, path, body string
		code             int
		kind             string
	}{
		{"10,000 tiny pictures", "/v1/score", `{"source": @P, "instruction": "x", "edits": ` + many(10000, "@P") + `}`, 413,
			"too_many"},
		{"many more", "/v1/score", `{"source": @P, "instruction": "x", "edits": ` + many(30000, "@P") + `}`, 413, "too_many"},
		{"numbers", "/v1/score", `{"edits": ` + many(8<<20, "0") + `}`, 413, "too_many"},
		{"requests", "/score", `{"requests": ` + many(8<<20, "{}") + `}`, 413, "too_many"},
		{"turns", "/score", `{"requests": [{"history": ` + many(8<<20, "{}") + `}]}`, 413, "too_many"},
		{"rewards", "/score", `{"requests": [{"required_rewards": ` + many(6<<20, `"a"`) + `}]}`, 413, "too_many"},
		{"rewards of many", "/score", `{"requests": ` + many(9000, `{"required_rewards": `+many(99, `"a"`)+`}`) + `}`, 413,
			"too_many"},
		{"pairs", "/v1/gradient", `{"pairs": ` + many(8<<20, "{}") + `}`, 413, "too_many"},
		{"depth", "/score", `{"later": ` + strings.Repeat(`{"a":[`, 2<<20), 400, "bad_request"},
		{"depth of ours", "/v1/score", strings.Repeat(`{"source":`, 2<<20), 400, "bad_request"},
		{"a bomb", "/v1/score", `{"source": @P, "instruction": "x", "edits": [@B]}`, 413, "too_large"},
		{"a bomb as the source", "/v1/gradient", `{"source": @B, "instruction": "x", "edit": @P}`, 413, "too_large"},
	} {
		body := bytes.ReplaceAll(bytes.ReplaceAll([]byte(c.body), []byte("@P"), tiny), []byte("@B"), bombed)
		runtime.GC()
		runtime.ReadMemStats(&before)
		code, _, raw := post(t, h.URL+c.path, body)
		runtime.ReadMemStats(&after)
		got := decodeScores(t, raw)
		e := got.Error
		if e == nil && len(got.Results) > 0 {
			e = got.Results[0].Error
		}
		if code != c.code || e == nil || e.Kind != c.kind || len(e.Message) > 1000 {
			t.Errorf("%s: %d %.300s", c.name, code, raw)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 { // including the test's own body
			t.Errorf("%s: %d MB were used for %d MB", c.name, used>>20, len(body)>>20)
		}
	}
}

// Clients that send slowly, or nothing, do not keep others from being answered.
func TestSlowCallers(t *testing.T) {
	long.Test(t)
	s, err := NewServer(Options{MaxBody: 1 << 20, Memory: 3 << 20}, []string{"a"}, []edit.Judge{&fake{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url, stop := serve(t, s)
	defer stop()
	for i := range 50 { // half a header, or half of a small body: little memory is held for them
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(
			conn,
			[]string{"POST /v1/sc", "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n{\"source\": " +
				"\""}[i%2],
		)
	}
	picture := png(t, 51, 5, 5)
	for range 8 {
		if code, _, raw := post(
			t,
			url+"/v1/score",
			object{"source": picture, "instruction": "x", "edits": []any{picture}},
		); code != 200 {
			t.Errorf("%d %s", code, raw)
		}
	}
	// a stalled body is refused after its deadline, in JSON
	r := httptest.NewRequest("POST", "http://localhost/v1/score", timeoutReader{})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), `"timeout"`) {
		t.Errorf("a body that stops: %d %s", w.Code, w.Body)
	}
}

// timeoutReader is a connection whose deadline has passed.
type timeoutReader struct{}

func (timeoutReader) Read([]byte) (int, error) { return 0, &net.OpError{Op: "read", Err: timeout{}} }

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// TestWorkHasNoDeadline: work after the end of a body, such as decoding on a busy machine, may take longer than its
// sender had.
func TestWorkHasNoDeadline(t *testing.T) {
	const slack = 50 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hold := newMemory(1<<20, 1<<20).hold("", 1<<20, http.NewResponseController(w))
		body := &bodyReader{ctx: r.Context(), from: r.Body, hold: hold, slack: slack, grace: slack}
		_, err := io.ReadAll(body)
		if n, e := io.Copy(io.Discard, body); n != 0 || e != nil { // like readers that check for more data
			err = errors.Join(err, e, errors.New("data after the end"))
		}
		select {
		case <-r.Context().Done():
			err = errors.Join(err, context.Cause(r.Context()))
		case <-time.After(4 * slack):
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer s.Close()
	for _, size := range []int{1, 100, bodyStep, 3*bodyStep + 1} {
		r, err := http.Post(s.URL, "application/json", bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			t.Error(err)
		}
		if r.StatusCode != http.StatusOK {
			t.Errorf("a body of %d bytes: got %d %s, want %d", size, r.StatusCode, text, http.StatusOK)
		}
	}
}

// deadlined records whether a handler sets a deadline for reading.
type deadlined struct {
	*httptest.ResponseRecorder
	set bool
}

func (d *deadlined) SetReadDeadline(time.Time) error {
	d.set = true
	return nil
}

// TestNoBodyNoDeadline: a request without a body has no deadline, since net/http would take its end for the end of the
// connection, and cancel the request: POST /v1/sleep waits as long as the work in progress takes.
func TestNoBodyNoDeadline(t *testing.T) {
	s, _ := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	for _, c := range []struct {
		body io.Reader
		want bool
	}{{nil, false}, {http.NoBody, false}, {strings.NewReader("{}"), true}} {
		r := httptest.NewRequest("POST", "/v1/sleep", c.body)
		r.Host = "localhost"
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		if s.ServeHTTP(w, r); w.set != c.want {
			t.Errorf("body %v: got a deadline: %v, want %v", c.body, w.set, c.want)
		}
	}
}
