package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// awaitDeadline bounds the wait for several servers to agree. It is long for busy machines.
const awaitDeadline = 2 * time.Minute

// await calls probe until it returns nil. After the deadline the test fails with probe's last error.
func await(t testing.TB, what string, probe func(context.Context) error) {
	t.Helper()
	var err error
	if !testkit.Poll(awaitDeadline, func() bool { err = serverproc.Probe(probe); return err == nil }) {
		t.Fatalf("redistest: %s: still not after %s: %v", what, awaitDeadline, err)
	}
}

// replication returns a server's replication section of INFO.
func (s *Server) replication(ctx context.Context) (map[string]string, error) {
	return s.fields(ctx, "info", "replication")
}

// caughtUp returns nil if the replicas have all of the master's writes at the time of the call. It compares offsets instead
// of using WAIT, which counts any replicas and waits only for the writes of its own connection.
func caughtUp(ctx context.Context, master *Server, replicas []*Server) error {
	ahead, err := master.replication(ctx)
	if err != nil {
		return err
	}
	written, err := strconv.ParseInt(ahead["master_repl_offset"], 10, 64)
	if err != nil {
		return fmt.Errorf("%s has no offset: %w", master.Addr(), err)
	}
	if want := strconv.Itoa(len(replicas)); ahead["connected_slaves"] != want {
		return fmt.Errorf("%s has %s replicas, want %s", master.Addr(), ahead["connected_slaves"], want)
	}
	for _, replica := range replicas {
		behind, err := replica.replication(ctx)
		if err != nil {
			return err
		}
		if behind["master_port"] != strconv.Itoa(master.port) || behind["master_link_status"] != "up" {
			return fmt.Errorf("%s is not connected to its master %s", replica.Addr(), master.Addr())
		}
		read, err := strconv.ParseInt(behind["slave_repl_offset"], 10, 64)
		if err != nil || read < written {
			return errors.Join(fmt.Errorf("%s has read %d of %d bytes", replica.Addr(), read, written), err)
		}
	}
	return nil
}
