package postgrestest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

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
