package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// maximumReply bounds what a reply may claim to be long. The answers that we ask for have a few kilobytes.
const maximumReply = 16 << 20

// replyError is an error that the server itself has answered with.
type replyError string

func (e replyError) Error() string { return string(e) }

// conversation is a connection on which one command after the other is asked and answered: as much of the protocol as
// this package needs to set servers up without a Redis client.
type conversation struct {
	connection net.Conn
	reader     *bufio.Reader
}

// converse connects to a server. The conversation ends, answered or not, at the context's deadline.
func converse(ctx context.Context, address string) (*conversation, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if deadline, limited := ctx.Deadline(); limited {
		if err := connection.SetDeadline(deadline); err != nil {
			connection.Close()
			return nil, err
		}
	}
	return &conversation{connection, bufio.NewReader(connection)}, nil
}

// ask sends a command, word by word, and returns its answer as [Server.Do] does.
func (c *conversation) ask(words ...string) (any, error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(c.connection, command.String()); err != nil {
		return nil, err
	}
	reply, err := c.read()
	if refused := replyError(""); errors.As(err, &refused) {
		return nil, fmt.Errorf("%s was answered with %w", strings.Join(words, " "), refused)
	}
	if err != nil {
		return nil, fmt.Errorf("no answer to %s: %w", strings.Join(words, " "), err)
	}
	return reply, nil
}

func (c *conversation) close() { c.connection.Close() }

// read reads one reply of version 2 of the protocol.
func (c *conversation) read() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, replyError(text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case '$', '*':
		length, err := strconv.Atoi(text)
		if err != nil || length < -1 || length > maximumReply {
			return nil, fmt.Errorf("a reply has the length %q", text)
		}
		if length == -1 {
			return nil, nil //nolint:nilnil // the protocol's own nil
		}
		if kind == '$' {
			return c.readText(length)
		}
		return c.readList(length)
	default:
		return nil, fmt.Errorf("a reply begins with %q", line)
	}
}

func (c *conversation) readText(length int) (any, error) {
	text := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(c.reader, text); err != nil {
		return nil, fmt.Errorf("half an answer: %w", err)
	}
	return string(text[:length]), nil
}

func (c *conversation) readList(length int) (any, error) {
	var list []any
	for range length {
		element, err := c.read()
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}

// fields reads what INFO and CLUSTER INFO answer: a name and a value in each line.
func fields(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ":"); is {
			found[name] = value
		}
	}
	return found
}
