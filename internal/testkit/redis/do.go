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

// do sends one command on a connection of its own, tries it once, and returns its answer as [Server.Do] does.
func do(ctx context.Context, address string, words ...string) (any, error) {
	// Dialed here, because the client logs each failure, and a server that starts refuses connections for a while.
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{
		Dialer:   func(context.Context, string, string) (net.Conn, error) { return connection, nil },
		Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
	})
	defer connection.Close()
	defer client.Close()
	command := make([]any, len(words))
	for i, word := range words {
		command[i] = word
	}
	answer, err := client.Do(ctx, command...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil //nolint:nilnil // the protocol's own nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return answer, nil
}

// ping returns nil when the process listens at the address and serves commands. A server that still loads its data answers
// PING with an error. The process number is compared because another test's server may have been faster to take the port,
// and would answer just as well.
func ping(ctx context.Context, address string, pid int) error {
	if answer, err := do(ctx, address, "PING"); err != nil {
		return err
	} else if answer != "PONG" {
		return fmt.Errorf("PING was answered with %q", answer)
	}
	information, err := do(ctx, address, "INFO", "server")
	if err != nil {
		return err
	}
	text, _ := information.(string)
	if fields(text)["process_id"] != strconv.Itoa(pid) {
		return fmt.Errorf("another server than process %d listens there", pid)
	}
	return nil
}

// fields reads the replies to INFO and CLUSTER INFO: a name and a value in each line.
func fields(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ":"); is {
			found[name] = value
		}
	}
	return found
}
