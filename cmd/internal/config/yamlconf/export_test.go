package yamlconf

// Distance and Expand export the internal functions.
var (
	Distance = distance
	Expand   = expand
)
