package harness

import "sync"

// Parallel does n pieces of work with a number of workers, each worker its own share, and
// returns when all workers have ended. A worker ends at its first error. Parallel returns
// one of the errors.
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
