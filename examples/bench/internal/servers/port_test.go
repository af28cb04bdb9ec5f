package servers

import (
	"errors"
	"net"
	"strconv"
	"testing"
)

// If another program has taken the port, the server is started on another port.
func TestTakenPortIsLeftToItsOwner(t *testing.T) { //nolint:paralleltest // the others change the environment
	owner, err := StartRedis(t.Context())
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Stop()
	binary := owner.command.Path
	_, text, err := net.SplitHostPort(owner.Addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := startRedis(t.Context(), binary, port); !errors.Is(err, errEnded) {
		t.Fatalf("a second server on the port ends with %v, want %v", err, errEnded)
	}
	tries := 0
	second, err := startOnFreePort(t.Context(), func(free int) (*Redis, error) {
		if tries++; tries == 1 {
			free = port
		}
		return startRedis(t.Context(), binary, free)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	if tries < 2 || second.Addr == owner.Addr {
		t.Errorf("after %d tries the second server is at %s, the first at %s", tries, second.Addr, owner.Addr)
	}
}
