// Package conn adapts net/http's connections to the clients of a reward server: net/http's own error responses become
// JSON, and clients with a short timeout learn that a long request is still in progress.
package conn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
)

// JSONErrors returns a listener that turns net/http's own error responses into JSON: for malformed requests, headers
// that are too large, and unknown Expect headers.
func JSONErrors(l net.Listener) net.Listener { return jsonListener{l} }

type jsonListener struct{ net.Listener }

func (l jsonListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &jsonConn{Conn: c}, nil
}

type jsonConn struct{ net.Conn }

// NetConn returns the underlying connection, as in tls.Conn.
func (c *jsonConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending half, so that a client can read a refusal before the connection is closed.
func (c *jsonConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// plainTextHead is what net/http writes between the status and the text of its error responses. Our own responses
// never have such a header.
var plainTextHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// expectationFailed is the start of net/http's response to an unknown Expect header. Our own responses never have
// this status.
var expectationFailed = []byte("HTTP/1.1 417 Expectation Failed\r\n")

func (c *jsonConn) Write(b []byte) (int, error) {
	line, text, own := bytes.Cut(b, plainTextHead)
	switch {
	case bytes.HasPrefix(b, expectationFailed) && bytes.HasSuffix(b, []byte("\r\n\r\n")):
		line, text = bytes.TrimSuffix(expectationFailed, []byte("\r\n")), []byte("Expect: only 100-continue is supported")
	case !own || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || bytes.ContainsRune(line, '\n') || len(line) < 12:
		return c.Conn.Write(b)
	}
	kind := "bad_request"
	if status, _ := strconv.Atoi(string(line[9:12])); status == 431 {
		kind = "too_large"
	}
	body, err := json.Marshal(map[string]any{"error": map[string]string{"kind": kind, "message": string(text)}})
	if err != nil {
		return 0, err
	}
	const head = "%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
	if _, err := fmt.Fprintf(c.Conn, head, line, len(body), body); err != nil {
		return 0, err
	}
	return len(b), nil
}
