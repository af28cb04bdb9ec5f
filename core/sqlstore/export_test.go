package sqlstore

// MaximumTries of one call.
const MaximumTries = maximumTries

// Judge reads an error of a driver.
func Judge(err error) (contended, forbidden bool) {
	f := faultOf(err)
	return f.contended(), f.forbidden()
}
