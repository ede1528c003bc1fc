package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/lab/internal/serve"
)

// rolling starts n servers behind the address of l, keeps callers busy, and replaces the servers one at a time. If
// the command contains {port}, each server has its own port, starting at first, for a proxy: it is stopped before its
// successor starts. Else all share one port, and the successor starts first.
func (l *load) rolling(command []string, n, first, callers int) error {
	own := strings.Contains(strings.Join(command, " "), "{port}")
	start := func(i int) (*serve.Server, error) {
		args := slices.Clone(command)
		for k := range args {
			args[k] = strings.ReplaceAll(args[k], "{port}", strconv.Itoa(first+i))
		}
		return serve.Start(context.Background(), os.Stderr, args...)
	}
	servers := make([]*serve.Server, n)
	for i := range servers {
		var err error
		if servers[i], err = start(i); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second) // let a proxy find them
	steady := l.callers(callers, false)
	time.Sleep(10 * time.Second)
	steady.report("all servers up")
	during := l.callers(callers, false)
	for i, old := range servers {
		var err error
		if own {
			err = old.Stop()
		}
		if err == nil {
			servers[i], err = start(i)
		}
		if err == nil && !own {
			err = old.Stop()
		}
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
	}
	lost := during.report(fmt.Sprintf("while %d servers were replaced", n))
	for _, s := range servers {
		if err := s.Stop(); err != nil {
			return err
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d requests were lost", lost)
	}
	return nil
}

// while keeps callers of l busy while a command runs that replaces the servers behind its address. A required token
// is read from ASSAY_TOKEN.
func (l *load) while(command []string, callers int) error {
	steady := l.callers(callers, false)
	time.Sleep(10 * time.Second)
	lost := steady.report("before")
	during := l.callers(callers, false)
	c := exec.Command(command[0], command[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err := c.Run()
	time.Sleep(2 * time.Second)
	lost += during.report("while it ran")
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests were lost", lost))
	}
	return err
}

// crowd is a group of callers that send requests continuously.
type crowd struct {
	stop  chan struct{}
	all   sync.WaitGroup
	begun time.Time

	mu    sync.Mutex
	codes map[int][]time.Duration // 0: no answer
	first map[int]string
}

// callers starts n callers: half of them keep their connections, the others open a new one for each request. With
// untilGone they end when no connection can be opened any more, which does not count as a loss.
func (l *load) callers(n int, untilGone bool) *crowd {
	c := &crowd{stop: make(chan struct{}), begun: time.Now(), codes: map[int][]time.Duration{}, first: map[int]string{}}
	for i := range n {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 1}}
		c.all.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				begin := time.Now()
				code, said := 0, ""
				// Without GetBody, a request on a connection that was just closed is not retried.
				q, err := http.NewRequest("POST", l.url+"/v1/score", io.NopCloser(bytes.NewReader(l.body)))
				if err == nil {
					q.ContentLength = int64(len(l.body))
					q.Header.Set("Content-Type", "application/json")
					if token := os.Getenv("ASSAY_TOKEN"); token != "" {
						q.Header.Set("Authorization", "Bearer "+token)
					}
					var r *http.Response
					if r, err = client.Do(q); err == nil {
						var raw []byte
						raw, err = io.ReadAll(r.Body)
						r.Body.Close()
						code, said = r.StatusCode, string(raw[:min(len(raw), 200)])
					}
				}
				if untilGone && errors.Is(err, syscall.ECONNREFUSED) {
					return
				}
				if err != nil {
					code, said = 0, err.Error()
				}
				c.mu.Lock()
				c.codes[code] = append(c.codes[code], time.Since(begin))
				c.first[code] = cmp.Or(c.first[code], said)
				c.mu.Unlock()
			}
		})
	}
	return c
}

// outcome waits for callers that end by themselves, and counts the requests with and without an answer.
func (c *crowd) outcome() (answered, lost int) {
	c.all.Wait()
	for code, d := range c.codes {
		if code == 0 {
			lost = len(d)
		} else {
			answered += len(d)
		}
		if code != http.StatusOK {
			fmt.Printf("%d with status %d: %s\n", len(d), code, c.first[code])
		}
	}
	return answered, lost
}

// report stops the callers, prints the results, and returns the number of requests that were not answered with 200.
func (c *crowd) report(what string) (lost int) {
	close(c.stop)
	c.all.Wait()
	took := time.Since(c.begun).Seconds()
	fmt.Printf("%s: %.1f requests/s\n", what, float64(len(c.codes[200]))/took)
	for code, d := range c.codes {
		report(fmt.Sprintf("  status %d", code), d)
		if code != 200 {
			lost += len(d)
			fmt.Printf("    first: %s\n", c.first[code])
		}
	}
	return lost
}
