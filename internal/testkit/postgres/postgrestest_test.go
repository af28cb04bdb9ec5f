package postgrestest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
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

// orphaning makes this test binary start a server and wait for SIGKILL.
const orphaning = "ONCEKEY_POSTGRESTEST_ORPHANING"

func TestMain(m *testing.M) {
	if os.Getenv(orphaning) != "" {
		server := Start(&serverproc.Lasting{})
		fmt.Println("started", server.process.Pid(), server.folder)
		select {}
	}
	goleak.VerifyTestMain(Main(m))
}

func TestServerDoesNotSurviveKilledTestBinary(t *testing.T) {
	t.Parallel()
	serverproc.Require(t, findPrograms)
	executable, err := os.Executable()
	testkit.Must(t, err)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), executable)
	command.Env = append(os.Environ(), orphaning+"=yes")
	parent := serverproc.Start(t, "orphaning", command)
	started := parent.AwaitLine(regexp.MustCompile(`^started (\d+) (\S+)$`))
	postmaster, err := strconv.Atoi(started[1])
	testkit.Must(t, err)
	orphan := &Server{t: t, folder: started[2]} // for the shared memory, which the killed test binary could not remove
	t.Cleanup(func() { orphan.must("remove the data of", os.RemoveAll(orphan.folder)) })
	t.Cleanup(orphan.removeSharedMemory)
	family, err := children(postmaster)
	testkit.Must(t, err)

	parent.Kill()

	if err := awaitGone(append(family, postmaster)); err != nil {
		t.Errorf("%v: %d and its children %d", err, postmaster, family)
	}
}

func TestVersionOlderThanTheOldestSupportedIsRefused(t *testing.T) {
	t.Parallel()
	serverproc.Versions(t, checkVersion, map[string]string{
		"postgres (PostgreSQL) 13.0":                           "<nil>",
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)": "<nil>",
		"postgres (PostgreSQL) 19devel":                        "<nil>",
		"postgres (PostgreSQL) 12.22":                          "PostgreSQL 12.22 is too old: 13 is the oldest",
		"postgres (PostgreSQL) 9.6.24":                         "too old",
		"command not understood":                               "no version that can be read",
	})
}

func TestMissingProgramsSayWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := locate(t.TempDir(), nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("the error is %v, want the name of the package to install", err)
	}
}

func TestHighestVersionComesFirst(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, version := range []string{"9", "17", "16"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, version, "bin"), 0o700))
	}
	var want []string
	for _, version := range []string{"17", "16", "9"} {
		want = append(want, filepath.Join(root, version, "bin"))
	}
	testkit.EqualSlices(t, installed([]string{filepath.Join(root, "*", "bin")}), want, "the folders")
}

func TestProgramThatDoesNotRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"initdb", "postgres", "createdb", "pg_basebackup"} {
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/false\n"), 0o700))
	}
	if _, err := locate(folder, nil); err == nil || !strings.Contains(err.Error(), "--version") {
		t.Errorf("the error is %v, want the name of the program", err)
	}
}
