package reward

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
)

// plainListener gives connections on which net/http's own refusals (a request that is no HTTP, a head that is too large) are JSON
// like all others.
type jsonListener struct{ net.Listener }

func (l jsonListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &jsonConn{Conn: c}, nil
}

type jsonConn struct{ net.Conn }

// CloseWrite ends the sending half, so that a caller can read a refusal before the connection is gone.
func (c *jsonConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ownHead is what net/http writes between the status and the text of a refusal of its own; nothing else here is text/plain with
// such a head.
var plainTextHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

func (c *jsonConn) Write(b []byte) (int, error) {
	line, text, own := bytes.Cut(b, plainTextHead)
	if !own || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || bytes.ContainsRune(line, '\n') || len(line) < 12 {
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
	head := fmt.Sprintf("%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", line, len(body))
	if _, err := c.Conn.Write(append([]byte(head), body...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
