package harness

import "sync"

// Parallel does n pieces of work with so many workers, each its own share, and
// returns when all have ended. A worker ends at its first error; one of the
// errors is returned.
func Parallel(workers, n int, work func(worker, i int) error) error {
	var group sync.WaitGroup
	failed := make(chan error, workers)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < n; i += workers {
				if err := work(worker, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
