package main

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
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/lab/internal/serve"
)

// served is a running score serve.
type served struct{ *serve.Server }

// startServer starts score serve; limit is a shell command to run before it, such as ulimit.
func startServer(ctx context.Context, score, limit string, args ...string) (served, error) {
	s, err := serve.Start(ctx, io.Discard, append([]string{"sh", "-c", limit + `exec "$0" "$@"`, score, "serve", "--addr",
		"127.0.0.1:0", "--json"}, args...)...)
	return served{s}, err
}

// withServer runs do with a server, and stops it.
func withServer(ctx context.Context, score, limit string, args []string, do func(served) error) error {
	s, err := startServer(ctx, score, limit, args...)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Stop())
}

// gauges returns the server's metrics; none if it does not answer.
func (s served) gauges() map[string]float64 {
	out, err := serve.Metrics(s.URL)
	if err != nil {
		return map[string]float64{}
	}
	return out
}

// memory returns the server's resident memory in MB.
func (s served) memory() float64 { return s.gauges()[residentGauge] / 1e6 }

// question is a request, and its answer from the idle server.
type question struct{ body, answer []byte }

// storm is a load of mixed requests.
type storm struct {
	url       string
	questions []question
	photos    int // number of leading questions with pictures of 512 pixels
	hostile   [][]byte

	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

// fault records a fault.
func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// flaws returns an error with the wrong answers of several storms.
func flaws(storms ...*storm) error {
	var all []string
	for _, s := range storms {
		all = append(all, s.wrong...)
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%d answers were wrong, the first: %s", len(all), all[0])
}

func (s *storm) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// prepare asks every question once and records the answers.
func (s *storm) prepare(folder string) error {
	photos, err := filepath.Glob(filepath.Join(folder, "examples", "photos", "*.png"))
	if err != nil || len(photos) < 3 {
		return fmt.Errorf("no photos in %s: %v", folder, err)
	}
	small, err := filepath.Glob(filepath.Join(folder, "testdata", "oracle", "images", "*.png"))
	if err != nil {
		return err
	}
	s.photos = len(photos)
	pictures := append(photos, small[:min(4, len(small))]...)
	for i := range pictures {
		source, err1 := os.ReadFile(pictures[i])
		edit, err2 := os.ReadFile(pictures[(i+1)%len(pictures)])
		body, err3 := json.Marshal(map[string]any{"source": source, "instruction": "make it " + strconv.Itoa(i%3),
			"edits": [][]byte{edit, source}})
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		code, answer, err := post(s.url, body)
		if err != nil || code != 200 {
			return fmt.Errorf("%d %s: %w", code, answer, err)
		}
		s.questions = append(s.questions, question{body, answer})
	}
	good := s.questions[0].body
	bomb := bytes.Replace(good, []byte(`"instruction"`), []byte(`"instruction":7,"instruction"`), 1)
	s.hostile = [][]byte{
		nil,
		[]byte("{"),
		[]byte(`{"source": "AAAA", "instruction": "x", "edits": ["AAAA"]}`),
		good[:len(good)/2],
		bomb,
		bytes.Repeat([]byte("["), 100_000),
		[]byte(`{"edits": [` + strings.Repeat(`"",`, 20_000) + `""]}`),
		bytes.Replace(good, []byte("iVBORw0KGgoAAAANSUhEUgAA"), []byte("iVBORw0KGgoAAAANSUhEUv//"), 1),
	}
	return nil
}

// blow keeps callers busy until ctx ends: of a hundred requests five are malformed, and ten callers disconnect.
func (s *storm) blow(ctx context.Context, callers int, rng *rand.Rand) {
	var all sync.WaitGroup
	for range callers {
		own := rand.New(rand.NewPCG(rng.Uint64(), 2))
		all.Go(func() {
			for ctx.Err() == nil {
				switch dice := own.IntN(100); {
				case dice < 5:
					s.attack(s.hostile[own.IntN(len(s.hostile))])
				case dice < 15:
					s.vanish(s.questions[own.IntN(len(s.questions))].body, own)
				default:
					s.ask(s.questions[own.IntN(len(s.questions))])
				}
			}
		})
	}
	all.Wait()
}

// ask asks a question, and reports whether it was answered.
func (s *storm) ask(q question) bool {
	code, answer, err := post(s.url, q.body)
	switch {
	case err != nil:
		s.count("no answer")
	case code == 429 || code == 503:
		s.count("refused for now")
	case code == 200 && bytes.Equal(answer, q.answer):
		s.count("answered")
		return true
	default:
		s.fault("%d %.200s", code, answer)
	}
	return false
}

func (s *storm) attack(body []byte) {
	code, answer, err := post(s.url, body)
	if err == nil && (code == 500 || code < 400 && !bytes.Contains(answer, []byte("bad_picture"))) {
		s.fault("a hostile request got %d %.200s", code, answer)
	}
	s.count("hostile")
}

// vanish sends a part of a request, or all of it, and disconnects.
func (s *storm) vanish(body []byte, rng *rand.Rand) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return
	}
	defer conn.Close()
	w := bufio.NewWriter(conn)
	fmt.Fprintf(w,
		"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		len(body))
	if rng.IntN(2) == 0 {
		body = body[:rng.IntN(len(body))]
	}
	w.Write(body)
	w.Flush()
	time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
	s.count("vanished")
}

// serverWeather loads a server with two replicas with mixed requests for some time, then with ten times as many as it
// can answer. Then it overloads one that may open only a few files.
func serverWeather(ctx context.Context, score string, length time.Duration, rng *rand.Rand) error {
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	scorer := filepath.Join(folder, "backbones", "tiny-scorer")
	s := &storm{counts: map[string]int{}}
	var memory []float64
	args := []string{"--scorer", scorer, "--replicas", "2", "--wait", "20s"}
	err = withServer(ctx, score, "", args, func(server served) error {
		s.url = server.URL
		if err := s.prepare(folder); err != nil {
			return err
		}
		memory = s.siege(ctx, server, length, rng)
		return nil
	})
	if len(memory) == 0 {
		return err
	}
	err = errors.Join(err, flaws(s))
	if last := len(memory) - 1; memory[last] > 1.25*memory[last/2]+50 {
		err = errors.Join(err, fmt.Errorf("memory grows: %.0f MB", memory))
	}
	return errors.Join(err, overload(ctx, score, scorer, s, min(length, time.Minute)), fewFiles(ctx, score, scorer, s))
}

// siege loads a server, and prints the counts of answers and its memory after every minute, or quarter of a short
// time. It returns the memory figures, starting with the idle server.
func (s *storm) siege(ctx context.Context, server served, length time.Duration, rng *rand.Rand) (memory []float64) {
	parts := max(4, int(length/time.Minute))
	fmt.Printf("| two replicas after | answered | refused for now | vanished | hostile | no answer | wrong | " +
		"resident memory |\n|---|---|---|---|---|---|---|---|\n")
	for i := range parts + 1 {
		if i > 0 {
			part, stop := context.WithTimeout(ctx, length/time.Duration(parts))
			s.blow(part, 32, rng)
			stop()
		}
		memory = append(memory, server.memory())
		n := s.counts
		fmt.Printf("| %v | %d | %d | %d | %d | %d | %d | %.0f MB |\n", length*time.Duration(i)/time.Duration(parts),
			n["answered"], n["refused for now"], n["vanished"], n["hostile"], n["no answer"], len(s.wrong), memory[i])
	}
	fmt.Println()
	return memory
}

// fewFiles opens more connections than the file limit of a server. When they are closed it must answer as before.
func fewFiles(ctx context.Context, score, scorer string, s *storm) error {
	code, answer, q := 0, []byte(nil), s.questions[0]
	err := withServer(ctx, score, "ulimit -n 64; ", []string{"--scorer", scorer}, func(server served) error {
		var idle []net.Conn
		for range 200 {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(server.URL, "http://"), time.Second)
			if err != nil {
				break
			}
			idle = append(idle, conn)
		}
		time.Sleep(time.Second)
		for _, conn := range idle {
			conn.Close()
		}
		for range 20 { // it retries until files are free
			var err error
			if code, answer, err = post(server.URL, q.body); err == nil && code == 200 {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		fmt.Printf("%d connections to a server with a limit of 64 files: afterwards it answers with %d\n", len(idle), code)
		return nil
	})
	if code != 200 || !bytes.Equal(answer, q.answer) {
		err = errors.Join(err, fmt.Errorf("afterwards the answer was %d %.200s", code, answer))
	}
	return err
}
