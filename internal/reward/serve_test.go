package reward

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/graceful"
	"assay/internal/long"
)

// serve starts s on a free port. stop signals it to end, and returns when Serve has returned.
func serve(t testing.TB, s *Server) (url string, stop func()) {
	t.Helper()
	l, err := graceful.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, time.Minute) }()
	scheme := "http://"
	if s.o.Cert != "" {
		scheme = "https://"
	}
	return scheme + l.Addr().String(), sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// noise returns a picture that does not compress.
func noise(t testing.TB, side int) []byte {
	t.Helper()
	p := data.NewPicture(side, side)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range p.Pix {
		p.Pix[i] = byte(random.Uint32())
	}
	var b bytes.Buffer
	if err := p.EncodePNG(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Requests from before the signal, or on a connection accepted before it, are answered.
func TestDrain(t *testing.T) {
	long.Test(t)
	f := &fake{gate: make(chan struct{})}
	s, err := NewServer(Options{}, []string{"a"}, []edit.Judge{f})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url, stop := serve(t, s)
	early, err := net.Dial("tcp", url[len("http://"):]) // says nothing yet
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	picture := png(t, 51, 4, 4)
	body := object{"source": picture, "instruction": "x", "edits": []any{picture}}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			code, _, raw := post(t, url+"/v1/score", body)
			if got := decodeScores(t, raw); code != 200 || *got.Results[0].Score != 2 {
				t.Errorf("request %d: %d %s", i, code, raw)
			}
		})
	}
	eventually(t, "requests to come in", func() bool {
		s.engine.queue.mu.Lock()
		defer s.engine.queue.mu.Unlock()
		return s.engine.queue.active == 4
	})
	all.Go(stop)
	eventually(t, "the signal", s.front.draining.Load)
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(early, "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(raw), raw)
	close(f.gate)
	r, err := http.ReadResponse(bufio.NewReader(early), nil)
	if err != nil || r.StatusCode != 200 || !r.Close {
		t.Errorf("a connection that was accepted before the signal: %v %+v", err, r)
	}
	all.Wait()
}

// However often a server is stopped under load, every accepted connection gets an answer.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	long.Test(t)
	picture := png(t, 51, 4, 4)
	raw, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if err != nil {
		t.Fatal(err)
	}
	request := fmt.Appendf(
		nil,
		"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(raw),
		raw,
	)
	var answered, lost atomic.Int64
	var rounds sync.WaitGroup
	for range 20 {
		rounds.Go(func() {
			s, err := NewServer(Options{}, []string{"a"}, []edit.Judge{&fake{}})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			url, stop := serve(t, s)
			var callers sync.WaitGroup
			for i := range 8 {
				callers.Go(func() { // half of them keep their connection as long as possible
					for {
						conn, err := net.Dial("tcp", url[len("http://"):])
						if errors.Is(err, syscall.ECONNREFUSED) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						in := bufio.NewReader(conn)
						for again := true; again; {
							conn.Write(request)
							r, err := http.ReadResponse(in, nil)
							if err != nil {
								lost.Add(1)
								t.Error(err)
								break
							}
							io.Copy(io.Discard, r.Body)
							answered.Add(1)
							again = !r.Close && i%2 == 0
						}
						conn.Close()
					}
				})
			}
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			stop()
			callers.Wait()
		})
	}
	rounds.Wait()
	if answered.Load() == 0 || lost.Load() > 0 {
		t.Errorf("%d answers, %d lost", answered.Load(), lost.Load())
	}
}

// A client with Python's requests that waits long gets 100 Continue responses; other clients get only the response.
func TestKeepAlive(t *testing.T) {
	f := &fake{gate: make(chan struct{})}
	before := keepAliveInterval
	keepAliveInterval = 5 * time.Millisecond
	defer func() { keepAliveInterval = before }()
	s, err := NewServer(Options{}, []string{"a"}, []edit.Judge{f})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url, stop := serve(t, s)
	defer stop()
	picture := png(t, 51, 4, 4)
	raw, err := json.Marshal(object{"source": picture, "instruction": "x", "edits": []any{picture}})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	var heard atomic.Int64
	agents := []string{"python-requests/2.32.3", "Python-urllib/3.11", "undici"}
	for i, agent := range append(agents, agents...) {
		id := ""
		if i >= len(agents) { // requests with an id wait for work that continues without them
			id = "Idempotency-Key: " + agent + "\r\n"
		}
		callers.Go(func() {
			conn, err := net.Dial("tcp", url[len("http://"):])
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn,
				"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nUser-Agent: %s\r\n%sContent-Length: %d\r\n\r\n%s",
				agent, id, len(raw), raw)
			in, signs := bufio.NewReader(conn), 0
			for {
				r, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Errorf("%s: %v", agent, err)
					return
				}
				if r.StatusCode == http.StatusContinue {
					if signs++; signs == 3 {
						heard.Add(1)
					}
					continue
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || r.StatusCode != 200 || (signs > 0) != (agent != "undici") {
					t.Errorf("%s: %d times 100 Continue, then %d %s %v", agent, signs, r.StatusCode, body, err)
				}
				return
			}
		})
	}
	eventually(t, "signs", func() bool { return heard.Load() == 4 })
	close(f.gate)
	callers.Wait()
}
