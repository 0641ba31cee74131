package protected

// Reasons are all texts that the functions of the package can return, except "".
var Reasons = []string{startFile, git, ssh, automatic, ci, settings, scripts, instructs}
