package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	for name, end := range map[string]func(*Server){
		"killed": (*Server).Kill, "stopped": (*Server).Stop, "restarted": func(*Server) {}, "paused": (*Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := Start(t)
			address := server.DSN()
			run(t, address, "CREATE TABLE owner AS SELECT 'money' AS name")
			end(server)
			server.Restart()
			if server.DSN() != address {
				t.Errorf("it moved from %s to %s", address, server.DSN())
			}
			expect(t, address, "SELECT name FROM owner", "money")
		})
	}
}

func TestKilledServerLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	server := Start(t)
	connection := connect(t, server.DSN())
	backend := int(connection.PgConn().PID())
	if !isAlive(backend) {
		t.Fatalf("no process %d: want the one that serves the connection", backend)
	}
	family, err := children(server.process.Pid())
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for _, pid := range append(family, backend, server.process.Pid()) {
		if isAlive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if _, err := pgx.Connect(t.Context(), server.DSN()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("connecting gives %v, want it refused", err)
	}
}

func TestPausedServerDoesNotAnswerButListens(t *testing.T) {
	t.Parallel()
	server := Start(t)
	connection := connect(t, server.DSN())
	server.Pause()
	impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := connection.Exec(impatient, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a connection from before gives %v, want no answer", err)
	}
	if _, err := pgx.Connect(impatient, server.DSN()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a new connection gives %v, want no answer", err)
	}
	server.Resume()
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
	connection := connect(t, server.DSN())
	server.Stop()
	if err := connection.Ping(t.Context()); err == nil {
		t.Error("the connection still works, want it cut")
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
	if err != nil {
		t.Fatal(err)
	}
	key, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("0x%08x", key)
}

func TestTakenPortIsRecognized(t *testing.T) {
	t.Parallel()
	first, second := Start(t), Start(t)
	second.Stop()
	second.port = first.port
	if err := second.launch(); err == nil || !second.portTaken() {
		t.Errorf("a second server on the same port gives %v, want the port to be recognized as taken", err)
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		connection.Close(closing)
	})
	return connection
}

func run(t *testing.T, dsn, statement string) {
	t.Helper()
	if _, err := connect(t, dsn).Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, dsn, query, want string) {
	t.Helper()
	var got string
	if err := connect(t, dsn).QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
		t.Errorf("%s gives %q and error %v, want %q", query, got, err, want)
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
