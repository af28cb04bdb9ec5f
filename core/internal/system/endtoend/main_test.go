package endtoend

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// examples is the folder of the module that the program belongs to, and program its path there.
const examples, program = "../../../../examples", "./payments"

// buildDirectory is the folder of the program, which is built once for all tests.
var buildDirectory string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "endtoend")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDirectory = directory
	runMoreInParallel()
	goleak.VerifyTestMain(postgrestest.Main(mysqltest.Main(m)), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDirectory)
		os.Exit(code)
	}))
}

// runMoreInParallel is for tests that mostly wait. The flag -parallel overrides it.
func runMoreInParallel() {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))) // the text is a number
	}
}

// buildProgram builds at the first call, so that a run with only skipped tests builds no
// program.
var buildProgram = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(buildDirectory, "payments")
	arguments := slices.Concat([]string{"build"}, buildFlags, []string{"-o", binary, program})
	return binary, runGo(arguments...)
})

func runGo(arguments ...string) error {
	command := exec.CommandContext(context.Background(), "go", arguments...)
	command.Dir = examples
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", arguments[0], err, output)
	}
	return nil
}
