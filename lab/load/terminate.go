package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/lab/internal/serve"
)

// terminate starts score serve n times, together servers at a time, and stops each with SIGTERM under load. Every
// request on an accepted connection must get an answer.
func (l *load) terminate(command []string, n, together int) error {
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
	fmt.Printf("%d terminations in %v: %d answers, %d lost, %d servers failed on exit\n", n,
		time.Since(begin).Round(time.Second), answered.Load(), lost.Load(), bad.Load())
	if lost.Load()+bad.Load() > 0 || answered.Load() == 0 {
		return errors.New("requests were lost")
	}
	return nil
}

// round runs one server. Its callers send requests until no connection can be opened any more.
func (l *load) round(command []string) (answered, lost int, err error) {
	server, err := serve.Start(context.Background(), os.Stderr, append(slices.Clone(command), "--addr", "127.0.0.1:0",
		"--json")...)
	if err != nil {
		return 0, 0, err
	}
	one := &load{url: strings.TrimSuffix(server.URL, "/"), body: l.body}
	callers := one.callers(8, true)
	time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
	err = server.Stop()
	answered, lost = callers.outcome()
	return answered, lost, err
}
