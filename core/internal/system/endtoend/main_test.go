package endtoend

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// examples is the folder of the module that the program belongs to, and program its path there.
const examples, program = "../../../../examples", "./payments"

// built is the program, which is built once for all tests.
var built serverproc.Shared[string]

func TestMain(m *testing.M) {
	runMoreInParallel()
	goleak.VerifyTestMain(built.Main(postgrestest.Main(mysqltest.Main(m))))
}

// runMoreInParallel is for tests that mostly wait. The flag -parallel overrides it.
func runMoreInParallel() {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))) // the text is a number
	}
}

// buildProgram builds the program like the tests.
func buildProgram(t testing.TB) string {
	t.Helper()
	if testkit.RaceDetector {
		return serverproc.Build(t, examples, program, "-race")
	}
	return serverproc.Build(t, examples, program)
}
