// Package load is a client that loads an HTTP server over persistent connections at
// minimal cost. It writes prepared requests in which only the key differs, and reads
// responses only to find their end.
//
//	client, err := load.Dial(ctx, address, 16, body)
//	latencies, err := client.Send(1000, http.StatusCreated, keyOf)
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
)

// KeySize is the size of every key: the size of a UUID.
const KeySize = 36

// patience bounds one call of Send.
const patience = 60 * time.Second

// Client has connections to one server. Its methods are not safe for concurrent use. Each
// call uses the connections concurrently.
type Client struct{ connections []*connection }

type connection struct {
	preparedRequest
	conn   net.Conn
	reader *bufio.Reader
}

// preparedRequest is a request in which only the key changes.
type preparedRequest struct {
	request []byte
	key     []byte // the place of the key in the request
}

// Dial opens the connections, for requests with the given JSON body.
func Dial(ctx context.Context, address string, connections int, body []byte) (*Client, error) {
	c := &Client{}
	for range connections {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.connections = append(c.connections, &connection{prepareRequest(address, body), conn, bufio.NewReaderSize(conn, 8<<10)})
	}
	return c, nil
}

func prepareRequest(address string, body []byte) preparedRequest {
	head := fmt.Sprintf("POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer alice\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nIdempotency-Key: ", address, len(body))
	request := make([]byte, len(head)+KeySize, len(head)+KeySize+4+len(body))
	copy(request, head)
	request = append(request, "\r\n\r\n"...)
	request = append(request, body...)
	return preparedRequest{request: request, key: request[len(head) : len(head)+KeySize]}
}

// Close ends the connections.
func (c *Client) Close() {
	for _, connection := range c.connections {
		connection.conn.Close()
	}
}

// Send sends n requests over all connections at once, and returns the nanoseconds of each.
// A connection sends its next request after the response to its previous one. key(i)
// writes the key of request i, KeySize bytes. A response with another status is an error.
func (c *Client) Send(n, status int, key func(i int, into []byte)) ([]float64, error) {
	took := make([]float64, n)
	if err := c.setDeadline(); err != nil {
		return nil, err
	}
	err := harness.Parallel(len(c.connections), n, func(worker, i int) error {
		start := time.Now()
		err := c.connections[worker].send(status, i, key)
		took[i] = float64(time.Since(start))
		return err
	})
	return took, err
}

func (c *Client) setDeadline() error {
	deadline := time.Now().Add(patience)
	for _, connection := range c.connections {
		if err := connection.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	return nil
}

// send sends request i, and expects the status.
func (c *connection) send(status, i int, key func(i int, into []byte)) error {
	key(i, c.key)
	got, err := c.exchange()
	if err == nil && got != status {
		err = fmt.Errorf("load: response with status %d, want %d", got, status)
	}
	return err
}

var (
	lengthHeader = []byte("content-length:")
	errNoStatus  = errors.New("load: the response has no status line")
)

// exchange sends the prepared request, and returns the status of the response.
func (c *connection) exchange() (status int, err error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, errNoStatus
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errNoStatus
	}
	length, err := c.skipHeader()
	if err != nil {
		return 0, err
	}
	_, err = c.reader.Discard(length)
	return status, err
}

// skipHeader reads the header, and returns the length of the body.
func (c *connection) skipHeader() (length int, err error) {
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		if len(line) > len(lengthHeader) && bytes.EqualFold(line[:len(lengthHeader)], lengthHeader) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthHeader):]))); err != nil {
				return 0, err
			}
		}
	}
}
