package postgrestest

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestKilledServerLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	server := Start(t)
	family, err := children(server.process.Pid())
	if err != nil || len(family) == 0 {
		t.Fatalf("the server has the children %d and %v, want those of its background tasks", family, err)
	}
	server.Kill()
	for _, pid := range append(family, server.process.Pid()) {
		if isAlive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
}

func TestEndingIsIdempotent(t *testing.T) {
	t.Parallel()
	server := Start(t)
	server.Pause()
	server.Stop()
	server.Stop()
	server.Kill()
	server.Kill()
	server.Pause()
	server.Resume()
	server.Restart()
	server.Restart()
}

func TestSharedMemoryOfKilledServerIsRemoved(t *testing.T) {
	t.Parallel()
	var before string
	t.Run("killed", func(t *testing.T) {
		server := Start(t)
		before = segment(t, server)
		server.Kill()
	})
	if output, err := exec.CommandContext(t.Context(), "ipcs", "-m").Output(); err != nil {
		t.Skip("no ipcs here: ", err)
	} else if before == "" || strings.Contains(string(output), before) {
		t.Errorf("segment %q is still in\n%s", before, output)
	}
}

// segment is the key of the server's shared memory, as ipcs prints it.
func segment(t *testing.T, server *Server) string {
	t.Helper()
	fields, err := server.sharedMemory()
	testkit.Must(t, err)
	key, err := strconv.ParseUint(fields[0], 10, 64)
	testkit.Must(t, err)
	return fmt.Sprintf("0x%08x", key)
}

func TestTakenPortIsRecognized(t *testing.T) {
	t.Parallel()
	first, second := Start(t), Start(t)
	second.Stop()
	second.port = first.port
	if err := second.launch(); err == nil || !second.process.PortTaken() {
		t.Errorf("a second server on the same port gives %v, want the port to be recognized as taken", err)
	}
}
