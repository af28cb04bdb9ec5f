package serverproc

import (
	"os"
	"testing"
)

// Folder makes a folder for the files of a server or of a database until the end of the test. It is in the folder
// ONCEKEY_TEST_DATA, or else among the temporary files. On a file system in memory no write waits for a busy disk: such a wait
// ends a short lease, and a sentinel believes that its clock has jumped.
func Folder(t testing.TB) string {
	t.Helper()
	return folderIn(t, os.Getenv("ONCEKEY_TEST_DATA"))
}

// FolderOnDisk is Folder among the temporary files. Unlike t.TempDir it is also for servers and programs that several tests
// share.
func FolderOnDisk(t testing.TB) string {
	t.Helper()
	return folderIn(t, "")
}

func folderIn(t testing.TB, parent string) string {
	t.Helper()
	folder, err := os.MkdirTemp(parent, "oncekey-") //nolint:usetesting // in a folder that is chosen
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Errorf("remove the data: %v", err)
		}
	})
	return folder
}
