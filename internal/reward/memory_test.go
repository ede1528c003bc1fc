package reward

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/edit"
)

// pipes is a listener whose connections are pipes, for the fake clock of a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// dial connects to the server.
func (p pipes) dial() net.Conn {
	mine, theirs := net.Pipe()
	p <- theirs
	return mine
}

// pipe runs a server in a synctest bubble.
func pipe(t *testing.T, o Options, test func(t *testing.T, s *Server, to pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(o, []string{"a"}, []edit.Judge{&fake{}})
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{Handler: s}
		l := make(pipes)
		var served sync.WaitGroup
		served.Go(func() { h.Serve(l) })
		test(t, s, l)
		h.Close()
		served.Wait()
		time.Sleep(time.Minute) // let net/http close connections
		s.Close()
	})
}

// head returns the header of a request to /v1/score.
func head(token string, length int) string {
	return fmt.Sprintf("POST /v1/score HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: %d\r\n\r\n", token, length)
}

// answer reads a response, and returns its status, the kind of its error, and how long it took.
func answer(t *testing.T, conn net.Conn, begin time.Time) (code int, kind string, took time.Duration) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Hour))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("no answer after %v: %v", time.Since(begin), err)
		return 0, "", time.Since(begin)
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	took = time.Since(begin)
	conn.Close()
	if got := decodeScores(t, raw); got.Error != nil {
		kind = got.Error.Kind
	}
	return r.StatusCode, kind, took
}

// TestPaceOfBodies: a body is given up soon after its sender has stopped, whatever its header promised. Slow ones are
// accepted.
func TestPaceOfBodies(t *testing.T) {
	picture := png(t, 51, 5, 5)
	small, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if err != nil {
		t.Fatal(err)
	}
	body := append(small, bytes.Repeat([]byte(" "), 10_000_000-len(small))...)
	for _, c := range []struct {
		name      string
		first     int           // bytes sent at once
		step      int           // bytes of each further piece
		each      time.Duration // between pieces
		code      int
		kind      string
		from, end time.Duration // time of the response
	}{
		{"at once", len(body), 0, 0, 200, "", 0, 0},
		{"200 kB a second", 0, 20_000, 100 * time.Millisecond, 200, "", 49 * time.Second, 51 * time.Second},
		{"in bursts", 0, 2_500_000, 12 * time.Second, 200, "", 47 * time.Second, 49 * time.Second},
		{"silent", 0, 0, 0, 408, "timeout", 30 * time.Second, 31 * time.Second},
		{"half of it", len(body) / 2, 0, 0, 408, "timeout", 30 * time.Second, 31 * time.Second},
		{"1 kB a second", 0, 1000, time.Second, 408, "timeout", 30 * time.Second, 31 * time.Second},
		{"half of it, then 100 kB a second", len(body) / 2, 10_000, 100 * time.Millisecond, 408, "timeout", 40 * time.Second,
			50 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			pipe(t, Options{}, func(t *testing.T, s *Server, to pipes) {
				conn, begin := to.dial(), time.Now()
				go func() {
					io.WriteString(conn, head("", len(body)))
					conn.Write(body[:c.first])
					for at := c.first; at < len(body) && c.step > 0; at += c.step {
						time.Sleep(c.each)
						if _, err := conn.Write(body[at:min(at+c.step, len(body))]); err != nil {
							return
						}
					}
				}()
				code, kind, took := answer(t, conn, begin)
				if code != c.code || kind != c.kind || took < c.from || took > c.end {
					t.Errorf("got %d %s after %v, want %d %s after %v to %v", code, kind, took, c.code, c.kind, c.from, c.end)
				}
				synctest.Wait()
				if held := s.front.bodies.memory.held(""); held != 0 {
					t.Errorf("%d bytes are still held", held)
				}
			})
		})
	}
}

// TestStrangersAreNotWaitedFor: an unauthorised client gets its response before any of the body has arrived, and is
// soon disconnected.
func TestStrangersAreNotWaitedFor(t *testing.T) {
	for name, request := range map[string]string{
		"no token":     strings.Replace(head("", 100_000_000), "Bearer", "", 1),
		"wrong token":  head("eve-of-token", 60_000_000),
		"another site": strings.Replace(head("main-token", 9), "Host", "Sec-Fetch-Site: cross-site\r\nHost", 1),
	} {
		pipe(t, Options{Token: "main-token"}, func(t *testing.T, _ *Server, to pipes) {
			conn, begin := to.dial(), time.Now()
			go io.WriteString(conn, request)
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v after %v", name, err, time.Since(begin))
			}
			if (r.StatusCode != 401 && r.StatusCode != 403) || !r.Close || time.Since(begin) > 0 {
				t.Errorf("%s: %s, close is %v, after %v; want 401 or 403, and the connection closed, at once", name, r.Status,
					r.Close, time.Since(begin))
			}
			if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(begin) > 2*lingering {
				t.Errorf("%s: the connection was closed after %v: %v", name, time.Since(begin), err)
			}
		})
	}
}

// TestIdleCallersHoldNothing: a request is answered at once, despite any number of clients that announce large bodies
// and send nothing, or half.
func TestIdleCallersHoldNothing(t *testing.T) {
	const size = 1_000_000
	picture := png(t, 51, 5, 5)
	body, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ callers, sent int }{{3, 0}, {33, 0}, {300, 0}, {300, 1}, {100, size / 2}} {
		o := Options{MaxBody: size, Memory: 16 << 20}
		pipe(t, o, func(t *testing.T, s *Server, to pipes) {
			for range c.callers {
				conn := to.dial()
				defer conn.Close()
				go io.WriteString(conn, head("", size)+`{"source": "`+strings.Repeat("A", c.sent)[:max(0, c.sent-12)])
			}
			time.Sleep(stallAfter)
			synctest.Wait()
			conn, begin := to.dial(), time.Now()
			go io.WriteString(conn, head("", len(body))+string(body))
			if code, kind, took := answer(t, conn, begin); code != 200 || took > time.Second {
				t.Errorf("%d callers, %d bytes of each: got %d %s after %v, want 200 within a second", c.callers, c.sent, code,
					kind, took)
			}
			synctest.Wait()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/metrics", nil))
			s.front.bodies.memory.mu.Lock()
			defer s.front.bodies.memory.mu.Unlock()
			held := s.front.bodies.memory.held("")
			if want := fmt.Sprintf("\nassay_memory_held_bytes %v\n", float64(held)); !strings.Contains(w.Body.String(), want) {
				t.Errorf("%d callers, %d bytes of each: /metrics has no line %q", c.callers, c.sent, want)
			}
			if held > o.Memory || held > int64(c.callers)*bodyCost(max(int64(c.sent), 64)) {
				t.Errorf("%d callers, %d bytes of each: %d bytes are held", c.callers, c.sent, held)
			}
		})
	}
}

// TestMemoryOfManyBodies: bodies of all sizes that arrive in parallel all get their memory, and neither a client nor
// all together ever exceed the limits.
func TestMemoryOfManyBodies(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			const size, largest = 1000, 400
			m := newMemory(size, largest)
			random := rand.New(rand.NewPCG(seed, 1))
			var all sync.WaitGroup
			for i := range 60 {
				client, claim := fmt.Sprint(i%(1+int(seed%4))), 1+random.Int64N(largest)
				h := m.hold(client, bodyCost(claim), nil)
				pause := time.Duration(1+random.IntN(9)) * time.Millisecond
				step, work := 1+random.Int64N(90), time.Duration(random.IntN(300))*time.Millisecond
				if seed%5 == 1 { // other requests wait longer than patience
					work *= 20
				}
				all.Go(func() {
					defer h.release()
					for n := int64(0); n < claim; {
						time.Sleep(pause)
						n = min(n+step, claim)
						if err := h.grow(t.Context(), bodyCost(n), time.Hour); err != nil {
							t.Errorf("seed %d, body %d at %d of %d: %v", seed, i, n, claim, err)
							return
						}
						m.mu.Lock()
						if own, of := m.held(client), m.held(""); own > m.share || of > size {
							t.Errorf("seed %d: %d of %d bytes are held, %d by one client", seed, of, size, own)
						}
						m.mu.Unlock()
					}
					h.shrink(claim)
					time.Sleep(work)
				})
			}
			all.Wait()
			if len(m.holds)+len(m.waiting) > 0 || m.held("") != 0 {
				t.Errorf("seed %d: %d requests are left, %d wait", seed, len(m.holds), len(m.waiting))
			}
		})
	}
}

// TestShares: a client with many bodies leaves memory for others.
func TestShares(t *testing.T) {
	const size = 1_000_000
	clients := []Client{{Name: "alice", Token: "alice-token"}, {Name: "bob", Token: "bob-token"}}
	picture := png(t, 51, 5, 5)
	body, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if err != nil {
		t.Fatal(err)
	}
	pipe(t, Options{MaxBody: size, Memory: 4 * size, Clients: clients}, func(t *testing.T, s *Server, to pipes) {
		stop := make(chan struct{})
		for range 40 { // endless bodies
			conn := to.dial()
			defer conn.Close()
			go func() {
				io.WriteString(conn, head("alice-token", size)+`{"source": "`)
				for {
					if _, err := conn.Write(bytes.Repeat([]byte("A"), 30_000)); err != nil {
						return
					}
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
					}
				}
			}()
		}
		time.Sleep(time.Second)
		conn, begin := to.dial(), time.Now()
		go io.WriteString(conn, head("bob-token", len(body))+string(body))
		if code, kind, took := answer(t, conn, begin); code != 200 || took > time.Second {
			t.Errorf("got %d %s after %v, want 200 within a second", code, kind, took)
		}
		s.front.bodies.memory.mu.Lock()
		if held := s.front.bodies.memory.held("alice"); held > s.front.bodies.memory.share || held < size {
			t.Errorf("alice holds %d bytes, want up to %d", held, s.front.bodies.memory.share)
		}
		s.front.bodies.memory.mu.Unlock()
		close(stop)
	})
}
