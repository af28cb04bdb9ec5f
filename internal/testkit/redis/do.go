package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// command is a command of go-redis with its reply.
type command[Reply any] interface {
	redis.Cmder
	Result() (Reply, error)
}

// send sends one command on a connection of its own, tries it once, and returns its reply.
func send[Reply any](ctx context.Context, s *Server, c command[Reply]) (none Reply, err error) {
	// Dialed here, because the client logs each failure, and a server that starts refuses connections for a while.
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return none, err
	}
	client := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return connection, nil },
		Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
	})
	defer connection.Close()
	defer client.Close()
	_ = client.Process(ctx, c) // Result returns its error
	reply, err := c.Result()
	if err != nil {
		return none, fmt.Errorf("%v: %w", c.Args(), err)
	}
	return reply, nil
}

// Do sends one command on a new connection. The reply is a string, an int64, nil, or a list of these. An error reply of the
// server is an error.
func (s *Server) Do(ctx context.Context, words ...string) (any, error) {
	arguments := make([]any, len(words))
	for i, word := range words {
		arguments[i] = word
	}
	reply, err := send(ctx, s, redis.NewCmd(ctx, arguments...))
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // the protocol's own nil
	}
	return reply, err
}

// fields returns the reply to INFO or CLUSTER INFO: a name and a value in each line.
func (s *Server) fields(ctx context.Context, words ...any) (map[string]string, error) {
	text, err := send(ctx, s, redis.NewStringCmd(ctx, words...))
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ":"); is {
			found[name] = value
		}
	}
	return found, err
}

// ping returns nil when the process listens at the server's address and serves commands. A server that still loads its data
// answers PING with an error. The process number is compared because another test's server may have been faster to take the
// port, and would answer just as well.
func (s *Server) ping(ctx context.Context, pid int) error {
	if answer, err := s.Do(ctx, "PING"); err != nil {
		return err
	} else if answer != "PONG" {
		return fmt.Errorf("PING was answered with %q", answer)
	}
	information, err := s.fields(ctx, "info", "server")
	if err == nil && information["process_id"] != strconv.Itoa(pid) {
		err = fmt.Errorf("another server than process %d listens there", pid)
	}
	return err
}
