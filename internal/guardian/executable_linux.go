package guardian

// executable returns this program's file, which may have been replaced or removed since it was started.
func executable() (string, error) { return "/proc/self/exe", nil }
