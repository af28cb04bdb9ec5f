package consumers

import (
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mysqltest.Main(postgrestest.Main(m))) }
