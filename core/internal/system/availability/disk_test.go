package availability

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// sqliteFull fills the file system of two SQLite files, one of each service, and empties it
// after the outage.
func sqliteFull(t *testing.T, outage time.Duration) scenario {
	t.Helper()
	const megabytes = 32
	disk := newDisk(t, megabytes)
	open := func(name string) *sql.DB {
		file := "file:" + filepath.Join(disk.folder, name) + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
		return service.SQL(t, "sqlite", file)
	}
	e := inSQL(t, sqlstore.SQLite(), open("guarded.db"), open("bare.db"))
	e.name = "SQLite: the disk is full, and has room again"
	e.strike = func(l *load) time.Time { return disk.full(t, l, outage) }
	return e
}

// postgresFull does the same to a PostgreSQL server, which ends when it cannot write its log,
// and is restarted when there is room again.
func postgresFull(t *testing.T, outage time.Duration) scenario {
	t.Helper()
	const megabytes = 256
	disk := newDisk(t, megabytes)
	t.Setenv("ONCEKEY_TEST_DATA", disk.folder)
	server := postgrestest.Start(t)
	e := inPostgres(t, server.DSN())
	e.name = "PostgreSQL: the disk is full, and has room again after a restart"
	e.strike = func(l *load) time.Time {
		began := disk.full(t, l, outage)
		server.Restart()
		return began
	}
	return e
}

// disk is a small file system in memory.
type disk struct{ folder string }

// newDisk mounts a file system until the end of the test. That needs the rights of root:
// without them the test is skipped.
func newDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	folder, err := os.MkdirTemp("", "oncekey-disk-") //nolint:usetesting // other users enter it
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.Remove(folder) })
	if err := run("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=755", megabytes), "tmpfs", folder); err != nil {
		t.Skipf("no small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := run("umount", folder); err != nil {
			t.Errorf("a disk of the test stays: %v", err)
		}
	})
	return &disk{folder}
}

func run(program string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, output)
	}
	return nil
}

// full fills the disk for the time of an outage, and returns when that began.
func (d *disk) full(t *testing.T, l *load, outage time.Duration) time.Time {
	t.Helper()
	began := time.Now()
	d.fill(t)
	l.awaitOutage(t, began)
	wait(outage)
	d.empty(t)
	return began
}

func (d *disk) filler() string { return filepath.Join(d.folder, "filler") }

// fill writes until no byte is left.
func (d *disk) fill(t *testing.T) {
	t.Helper()
	file, err := os.Create(d.filler())
	testkit.Must(t, err)
	defer file.Close()
	zeros := make([]byte, 1<<20)
	for size := len(zeros); size > 0; {
		_, err := file.Write(zeros[:size])
		if errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func (d *disk) empty(t *testing.T) {
	t.Helper()
	testkit.Must(t, os.Remove(d.filler()))
}
