package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// overload measures the rate at which a server answers requests with pictures of 512 pixels, and then sends ten times
// as many, whether it answers or not. Accepted requests must be answered as by an idle server, the others refused at
// once; afterwards it must work as before.
func overload(ctx context.Context, score, scorer string, s *storm, length time.Duration) error {
	args := []string{"--scorer", scorer, "--replicas", "2", "--wait", "2s"}
	return withServer(ctx, score, "", args, func(server served) error {
		calm := &storm{url: server.URL, questions: s.questions[:s.photos], counts: map[string]int{}}
		part, stop := context.WithTimeout(ctx, length/4)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for k := i; part.Err() == nil; k++ {
					calm.ask(calm.questions[k%len(calm.questions)])
				}
			})
		}
		all.Wait()
		stop()
		rate := float64(calm.counts["answered"]) / (length / 4).Seconds()
		if rate == 0 {
			return fmt.Errorf("the server answers no request with photos: %v %v", calm.counts, calm.wrong)
		}
		before := server.memory()
		rough := &storm{url: server.URL, questions: calm.questions, counts: map[string]int{}}
		took := rough.flood(ctx, 10*rate, length/2)
		after := server.memory()
		q := calm.questions[0]
		code, answer, err := post(server.URL, q.body)
		fmt.Printf("photos of 512 pixels: %.1f requests/s are answered; of ten times as many for %v: %v, "+
			"answers after %.1f s (median), %.1f s (slowest). Resident memory %.0f MB before, %.0f MB after\n",
			rate, length/2, rough.counts, quantile(took, 0.5), quantile(took, 1), before, after)
		if err != nil || code != 200 || !bytes.Equal(answer, q.answer) {
			err = errors.Join(err, fmt.Errorf("afterwards the answer was %d %.200s", code, answer))
		}
		if rough.counts["answered"] == 0 {
			err = errors.Join(err, errors.New("no request was answered under load"))
		}
		return errors.Join(err, flaws(calm, rough))
	})
}

// flood sends requests at a rate per second, and returns the seconds that the answered ones took.
func (s *storm) flood(ctx context.Context, rate float64, length time.Duration) (took []float64) {
	const most = 2000 // at a time
	var all sync.WaitGroup
	slots := make(chan struct{}, most)
	begin := time.Now()
	for k := 0; time.Since(begin) < length && ctx.Err() == nil; k++ {
		time.Sleep(time.Until(begin.Add(time.Duration(float64(k) / rate * float64(time.Second)))))
		select {
		case slots <- struct{}{}:
		default:
			s.count("not sent")
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			since := time.Now()
			if s.ask(s.questions[k%len(s.questions)]) {
				s.mu.Lock()
				took = append(took, time.Since(since).Seconds())
				s.mu.Unlock()
			}
		})
	}
	all.Wait()
	return took
}

func quantile(x []float64, p float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return x[int(p*float64(len(x)-1))]
}
