// Package load is a client that loads an HTTP server over persistent connections at
// minimal cost. It writes prepared requests in which only the key differs, and reads
// responses only to find their end.
//
//	client, err := load.Dial(ctx, address, 16, body)
//	latencies, err := client.Send(0, 1000, http.StatusCreated, keyOf)
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
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
	request []byte
	key     []byte // the place of the key in the request
	conn    net.Conn
	reader  *bufio.Reader
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
		request, key := prepareRequest(address, body)
		c.connections = append(c.connections, &connection{request, key, conn, bufio.NewReaderSize(conn, 8<<10)})
	}
	return c, nil
}

// prepareRequest returns a request, and the place of its key.
func prepareRequest(address string, body []byte) (request, key []byte) {
	head := fmt.Sprintf("POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer alice\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nIdempotency-Key: ", address, len(body))
	request = make([]byte, len(head)+KeySize, len(head)+KeySize+4+len(body))
	copy(request, head)
	request = append(request, "\r\n\r\n"...)
	request = append(request, body...)
	return request, request[len(head) : len(head)+KeySize]
}

// Close ends the connections.
func (c *Client) Close() {
	for _, connection := range c.connections {
		connection.conn.Close()
	}
}

// Send sends n requests over all connections at once, and returns the nanoseconds of each.
// key(i) writes the key of request i, KeySize bytes. A response with another status is an
// error.
//
// A connection sends its next request after the response to its previous one. With a time
// between requests, request i is due i times every after the first one, and its nanoseconds
// begin then: the wait for a free connection counts, so no slow response hides the delay of
// the requests behind it (coordinated omission).
func (c *Client) Send(every time.Duration, n, status int, key func(i int, into []byte)) ([]float64, error) {
	took := make([]float64, n)
	if err := c.setDeadline(); err != nil {
		return nil, err
	}
	if every > 0 {
		return took, c.pace(every, took, status, key)
	}
	err := harness.Parallel(len(c.connections), n, func(worker, i int) error {
		start := time.Now()
		err := c.connections[worker].send(status, i, key)
		took[i] = float64(time.Since(start))
		return err
	})
	return took, err
}

// pace passes each request to a free connection when it is due.
func (c *Client) pace(every time.Duration, took []float64, status int, key func(i int, into []byte)) error {
	due, begin := make(chan int, len(took)), time.Now()
	go func() {
		defer close(due)
		for i := range took {
			for time.Since(begin) < time.Duration(i)*every {
				runtime.Gosched() // a timer would be later than a response
			}
			due <- i
		}
	}()
	err := harness.Parallel(len(c.connections), len(c.connections), func(worker, _ int) error {
		for i := range due {
			if err := c.connections[worker].send(status, i, key); err != nil {
				return err
			}
			took[i] = float64(time.Since(begin) - time.Duration(i)*every)
		}
		return nil
	})
	for range due {
		continue // after an error, until the last request was due
	}
	return err
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
