//go:build unix

package reconcile

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(environment); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(postgrestest.Main(mysqltest.Main(m)))
}
