"""What a release is made of: one version everywhere, charts that name its images, and a list of what each image holds."""
