// Package serve starts servers for tools that measure them, and stops them like Kubernetes does, with SIGTERM.
package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
)

// Server is a running `score serve`.
type Server struct {
	URL    string // "" if the server was started without --json
	Stderr bytes.Buffer

	process *exec.Cmd
}

// Start starts a command, and waits for the line with its address. Its stderr is kept, and also copied to a writer.
func Start(ctx context.Context, stderr io.Writer, command ...string) (*Server, error) {
	if len(command) == 0 {
		return nil, errors.New("no server command")
	}
	s := &Server{process: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.process.Stderr = io.MultiWriter(&s.Stderr, stderr)
	out, err := s.process.StdoutPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%w: %s%s", errors.Join(err, s.process.Wait()), line, s.Stderr.String())
	}
	var ready struct{ Address, Error string }
	if json.Unmarshal(line, &ready) == nil {
		s.URL = ready.Address
	}
	if ready.Error != "" {
		return nil, errors.Join(errors.New(ready.Error), s.process.Wait())
	}
	return s, nil
}

// Stop stops the server with SIGTERM.
func (s *Server) Stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.process.Wait(); err != nil {
		return fmt.Errorf("the server failed on exit: %w: %s", err, s.Stderr.String())
	}
	return nil
}

// Metrics returns the sum of all values of each metric of a server; stage metrics are keyed by name and stage.
func Metrics(url string) (map[string]float64, error) {
	r, err := http.Get(url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(b.String()) {
		head, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			head, value, ok = strings.Cut(strings.TrimSpace(line), " ")
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); !ok || err != nil || strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, _ := strings.Cut(head, "{")
		if _, stage, ok := strings.Cut(labels, `stage="`); ok {
			stage, _, _ = strings.Cut(stage, `"`)
			name += " " + stage
		}
		out[name] += v
	}
	return out, nil
}
