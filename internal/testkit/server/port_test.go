package serverproc

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

var errTaken = errors.New("address already in use")

// occupy listens on the port like a foreign program.
func occupy(t *testing.T, port int) {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Logf("another program has port %d already: %v", port, err)
		return
	}
	t.Cleanup(func() { listener.Close() })
}

// If another program takes a port between the search and the start, the server gets another port.
func TestServerIsStartedOnAnotherPortWhenItsPortIsTaken(t *testing.T) {
	t.Parallel()
	var tried []int
	StartOnFreePort(t, func(port int) error {
		if tried = append(tried, port); len(tried) < 3 {
			occupy(t, port)
			return errTaken
		}
		return nil
	}, func() bool { return true })
	if len(tried) != 3 || tried[0] == tried[1] || tried[1] == tried[2] || tried[0] == tried[2] {
		t.Errorf("ports %v were tried, want three", tried)
	}
}

func TestServerThatCannotStartFailsTheTest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		taken bool
		tries int
	}{"for another reason": {false, 1}, "because every port is taken": {true, startAttempts}} {
		tries := 0
		verdict := judge(t, func(tb testing.TB) {
			StartOnFreePort(tb, func(int) error { tries++; return errTaken }, func() bool { return row.taken })
		})
		if verdict.verdict != "failed" || !strings.Contains(verdict.message, errTaken.Error()) || tries != row.tries {
			t.Errorf("%s: the test %s after %d tries: %q", name, verdict.verdict, tries, verdict.message)
		}
	}
}

// A test keeps its port while its server is down. No other test in any process gets the port.
func TestPortBelongsToItsTest(t *testing.T) {
	t.Parallel()
	const tests = 5 // another program may take one of their ports afterwards, but hardly all
	free := 0
	for n := range tests {
		var mine int
		t.Run(fmt.Sprint("test ", n), func(t *testing.T) {
			mine = FreePort(t)
			if claimed(t, mine) {
				t.Errorf("port %d was given away twice", mine)
			}
		})
		if claimed(t, mine) {
			free++
		}
	}
	if free == 0 {
		t.Error("no port is free after its test")
	}
}

func TestPortInUseIsNotClaimed(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if address, is := listener.Addr().(*net.TCPAddr); !is || claimed(t, address.Port) {
		t.Errorf("%v is in use and was claimed", listener.Addr())
	}
}
