package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// outcomes counts what became of requests when servers were ended under load.
type outcomes struct {
	answered, refused, lost atomic.Int64 // refused: with a status other than 200
	bad                     atomic.Int64 // servers that did not end well
	first                   sync.Once
}

// terminate starts score serve n times, so many side by side, and ends each with SIGTERM under load. Every request on
// an accepted connection must get an answer.
func terminate(command []string, body []byte, n, together int) error {
	request := fmt.Appendf(
		nil,
		"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body),
		body,
	)
	var e outcomes
	var all sync.WaitGroup
	next := make(chan int)
	for range together {
		all.Go(func() {
			for range next {
				if err := e.round(command, request); err != nil {
					e.bad.Add(1)
					fmt.Fprintln(os.Stderr, err)
				}
			}
		})
	}
	begin := time.Now()
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	fmt.Printf("%d terminations in %v: %d answers, %d other statuses, %d lost, %d servers ended badly\n",
		n, time.Since(begin).Round(time.Second), e.answered.Load(), e.refused.Load(), e.lost.Load(), e.bad.Load())
	if e.lost.Load()+e.bad.Load() > 0 || e.answered.Load() == 0 {
		return fmt.Errorf("requests were lost")
	}
	return nil
}

// round is one server's life.
func (e *outcomes) round(command []string, request []byte) error {
	c := exec.Command(command[0], append(command[1:], "--addr", "127.0.0.1:0", "--json")...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var ready struct{ Address string }
	if err == nil {
		err = json.Unmarshal([]byte(line), &ready)
	}
	if err != nil {
		c.Process.Kill()
		return fmt.Errorf("%q: %w", line, err)
	}
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() { e.call(strings.TrimPrefix(ready.Address, "http://"), request, i%2 == 0) })
	}
	time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	callers.Wait()
	return c.Wait()
}

// call asks until no connection can be made any more: on one connection as long as it lasts, or on a new one each time.
func (e *outcomes) call(address string, request []byte, keep bool) {
	for {
		conn, err := net.Dial("tcp", address)
		if err != nil { // nobody is there
			return
		}
		in := bufio.NewReader(conn)
		for again := true; again; again = again && keep {
			conn.SetDeadline(time.Now().Add(time.Minute))
			_, err := conn.Write(request)
			var r *http.Response
			if err == nil {
				r, err = http.ReadResponse(in, nil)
			}
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
			}
			switch {
			case err != nil:
				e.lost.Add(1)
				e.first.Do(func() { fmt.Fprintln(os.Stderr, "lost:", err) })
				again = false
			case r.StatusCode == http.StatusOK:
				e.answered.Add(1)
				again = !r.Close
			default:
				e.refused.Add(1)
				again = !r.Close
			}
		}
		conn.Close()
	}
}
