package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// terminate starts score serve n times, so many side by side, and ends each with SIGTERM under load. Every request on
// an accepted connection must get an answer.
func (l *load) terminate(command []string, n, together int) error {
	if len(command) == 0 {
		return errors.New("no command behind the flags")
	}
	var answered, lost, bad atomic.Int64
	var all sync.WaitGroup
	next := make(chan int)
	begin := time.Now()
	for range together {
		all.Go(func() {
			for range next {
				a, b, err := l.round(command)
				answered.Add(int64(a))
				lost.Add(int64(b))
				if err != nil {
					bad.Add(1)
					fmt.Println(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	fmt.Printf("%d terminations in %v: %d answers, %d lost, %d servers ended badly\n", n,
		time.Since(begin).Round(time.Second), answered.Load(), lost.Load(), bad.Load())
	if lost.Load()+bad.Load() > 0 || answered.Load() == 0 {
		return errors.New("requests were lost")
	}
	return nil
}

// round is one server's life. Its callers ask until no connection can be made any more.
func (l *load) round(command []string) (answered, lost int, err error) {
	c, line, err := startServer(append(command, "--addr", "127.0.0.1:0", "--json"), 0)
	if err != nil {
		return 0, 0, err
	}
	var ready struct{ Address string }
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&ready); err != nil {
		return 0, 0, errors.Join(err, c.Process.Kill())
	}
	one := &load{url: strings.TrimSuffix(ready.Address, "/"), body: l.body}
	callers := one.callers(8, true)
	time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
	err = end(c)
	answered, lost = callers.outcome()
	return answered, lost, err
}

// end ends a server as Kubernetes does.
func end(c *exec.Cmd) error { return errors.Join(c.Process.Signal(syscall.SIGTERM), c.Wait()) }
