package postgrestest

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestStartedServerAnswers(t *testing.T) {
	t.Parallel()
	server := Start(t)
	expect(t, server.DSN(), "SELECT current_user || '@' || current_database()", "postgres@postgres")
	expect(t, server.DSN(), "SHOW fsync", "off")
}

func TestSettingsReachTheServer(t *testing.T) {
	t.Parallel()
	server := Start(t, append(Durable(), "max_connections=7")...)
	expect(t, server.DSN(), "SHOW max_connections", "7")
	expect(t, server.DSN(), "SHOW fsync", "on")
	expect(t, server.DSN(), "SHOW wal_segment_size", "16MB")
}

func TestSharedDatabasesShareNothing(t *testing.T) {
	t.Parallel()
	one, other := Shared(t), Shared(t)
	run(t, one, "CREATE TABLE owner AS SELECT 'one' AS name")
	expect(t, one, "SELECT name FROM owner", "one")
	expect(t, other, "SELECT count(*)::text FROM pg_tables WHERE tablename = 'owner'", "0")
}

func TestDataSurvives(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*Server){
		"killed": (*Server).Kill, "stopped": (*Server).Stop, "restarted": func(*Server) {}, "paused": (*Server).Pause,
	}, func(t *testing.T, end func(*Server)) {
		server := Start(t)
		address := server.DSN()
		run(t, address, "CREATE TABLE owner AS SELECT 'money' AS name")
		end(server)
		server.Restart()
		if server.DSN() != address {
			t.Errorf("the server moved from %s to %s", address, server.DSN())
		}
		expect(t, address, "SELECT name FROM owner", "money")
	})
}

func TestKilledServerLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	server := Start(t)
	backend, err := strconv.Atoi(open(t, server.DSN()).ask(t, "SELECT pg_backend_pid()"))
	if err != nil || !isAlive(backend) {
		t.Fatalf("no process %d: want the one that serves the connection", backend)
	}
	family, err := children(server.process.Pid())
	testkit.Must(t, err)
	server.Kill()
	for _, pid := range append(family, backend, server.process.Pid()) {
		if isAlive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if output, err := psql(t.Context(), t, server.DSN(), "SELECT 1"); err == nil || !strings.Contains(output, "refused") {
		t.Errorf("connecting gives %q and %v, want it refused", output, err)
	}
}

func TestPausedServerDoesNotAnswerButListens(t *testing.T) {
	t.Parallel()
	server := Start(t)
	session := open(t, server.DSN())
	server.Pause()
	session.say(t, "SELECT 'late'")
	select {
	case line := <-session.lines:
		t.Errorf("a connection from before gives %q, want no answer", line)
	case <-time.After(200 * time.Millisecond):
	}
	impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if output, err := psql(impatient, t, server.DSN(), "SELECT 1"); impatient.Err() == nil || output != "" {
		t.Errorf("a new connection gives %q and %v, want no answer", output, err)
	}
	server.Resume()
	if answer := session.hear(t); answer != "late" {
		t.Errorf("the resumed server gives %q to the connection from before, want %q", answer, "late")
	}
	expect(t, server.DSN(), "SELECT 'yes'", "yes")
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
}

func TestStopDoesNotWaitForClients(t *testing.T) {
	t.Parallel()
	server := Start(t)
	session := open(t, server.DSN())
	server.Stop()
	session.say(t, "SELECT 'still here'")
	if answer := session.hear(t); answer != "" {
		t.Errorf("the connection still gives %q, want it cut", answer)
	}
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

func TestStandbyFollowsAndTakesOver(t *testing.T) {
	t.Parallel()
	server := Start(t)
	run(t, server.DSN(), "CREATE TABLE owner AS SELECT 'money' AS name")
	standby := server.Standby()
	expect(t, standby.DSN(), "SELECT pg_is_in_recovery()::text || ' ' || (SELECT name FROM owner)", "true money")
	standby.Restart()
	server.Kill()
	expect(t, standby.DSN(), "SELECT pg_promote()::text", "true")
	run(t, standby.DSN(), "INSERT INTO owner VALUES ('more')")
}
